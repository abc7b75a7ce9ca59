add_library(Boost::headers INTERFACE IMPORTED)
target_include_directories(Boost::headers SYSTEM INTERFACE ${DDPRUN_HEADERS})
set(Boost_FOUND ON)
