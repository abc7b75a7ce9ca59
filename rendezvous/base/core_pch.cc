// Gives the precompiled header of what links no libtorch a translation unit to be built with.
