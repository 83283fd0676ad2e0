#include "rotary/tensor.hpp"

#include <gtest/gtest.h>
