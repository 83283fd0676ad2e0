// From a model's own files to its rotation. To be completed.
#pragma once

#include "rotary/export.hpp"
