#include "rotary/rotary.hpp"

int main() { return 0; }
