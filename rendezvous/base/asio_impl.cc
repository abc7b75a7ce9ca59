// Boost.Asio's own sources, compiled once: BOOST_ASIO_SEPARATE_COMPILATION keeps them out of every other file.
#include <boost/asio/impl/src.hpp>
