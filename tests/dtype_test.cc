#include "rotary/dtype.hpp"

#include <gtest/gtest.h>
