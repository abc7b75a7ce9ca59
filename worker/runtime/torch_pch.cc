// Gives the precompiled header of libtorch a translation unit to be built with.
