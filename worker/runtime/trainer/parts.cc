#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/task.h>

// The destructors are here, so that one library has the type information of these classes: a plug-in and the
// trainer that opens it mean the same class.
namespace ddprun {

Model::~Model() = default;
DataSource::~DataSource() = default;
Task::~Task() = default;

}  // namespace ddprun
