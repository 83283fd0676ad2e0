# What the library is built from. docs/design/0002-dependencies.md says why each was chosen.
find_package(Threads REQUIRED)
find_package(hwy REQUIRED)  # SIMD; headers only
find_package(nlohmann_json REQUIRED)  # JSON; headers only
find_package(PkgConfig REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)  # .npz
