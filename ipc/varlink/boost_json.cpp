// Boost.JSON is compiled here, once; its library is not needed at run time.
#include <boost/json/src.hpp>
