#pragma once

#include <ddprun/pt_value.h>
#include <ddprun/trainer/registry.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::models {

/// The state dict in what `load_pt` read: the value itself, or what stands under "model" (a checkpoint of
/// ddprun) or "state_dict". Names that all begin with "module.", as DistributedDataParallel saves them, lose
/// that.
/// Errors  Exception kConfig: there is none; `file` is what the message calls it.
PtDict find_state_dict(const PtValue& value, const std::string& file);

/// Which weights of a checkpoint are wanted: the average that its job has kept, the model's own, or, kAuto, the
/// average where there is one.
enum class WeightsOf { kAuto, kAverage, kModel };

/// "auto", "average" or "model"; nothing for another word.
std::optional<WeightsOf> to_weights_of(const std::string& word);

struct ChosenWeights {
  PtDict state;
  bool is_average = false;
};

/// What `which` means in the file. One that is no checkpoint of ddprun has no average.
/// Errors  Exception kConfig: as find_state_dict; an average is wanted, and there is none.
ChosenWeights choose_weights(const PtValue& value, const std::string& file, WeightsOf which);

/// Copies `state` into the parameters and buffers of `model`, all or nothing. A norm's num_batches_tracked, which
/// files from before 2018 have not, stays where it is missing.
///
/// may_differ  patterns ("fc.*"): names that they match may be missing, be too many or have another shape; this
///             model's own values stay there. `*` stands for any letters, dots included
/// returns     the names of this model that kept their own values
/// Errors      Exception kConfig that lists every other name that is missing, not known, or misshapen, and every
///             pattern that matches no name of either side
std::vector<std::string> load_weights(torch::nn::Module& model, const PtDict& state,
                                      const std::vector<std::string>& may_differ);

/// What stands before the names of `state` and not before a model's, `mine`, with its dot, as a LightningModule
/// writes them ("model."): all of them begin with it, none of them is the model's as it stands, and some are
/// without it. Empty: there is no such thing. Pure.
std::string foreign_prefix(const PtDict& state, const PtDict& mine);

/// A model that begins with the weights of `state`. Where these are for another number of classes, this does as
/// one does in Python: it makes the model for those, loads them, and gives it a new head for the data's, drawn
/// like a new linear layer after all draws of the model.
///
/// A foreign_prefix of the names is left out; `prefix`, where it is not null, gets it.
///
/// Errors  as load_weights; Exception kConfig: the head is no linear layer (a GPT's is its embedding, too)
std::shared_ptr<Model> make_with_weights(const ModelFactory& make, const Options& options,
                                         const DataShape& data, const PtDict& state,
                                         const std::vector<std::string>& may_differ = {},
                                         std::string* prefix = nullptr);

/// From now on nothing that matches one of `patterns` learns: it requires no gradient. Running statistics of a
/// norm go on in training mode, as they do in Python.
///
/// returns  the names of what is frozen
/// Errors   Exception kConfig: a pattern matches no parameter, or nothing is left to learn
std::vector<std::string> freeze(torch::nn::Module& model, const std::vector<std::string>& patterns);

}  // namespace ddprun::models
