#include "rotary/parallel.hpp"

#include <gtest/gtest.h>
