// Boost.Asio and Boost.JSON are compiled here, once, instead of in every file that includes them.
#include <boost/asio/impl/src.hpp>
#include <boost/json/src.hpp>
