// One task of attention(): some rows (queries of the heads that share one KV head) against every key that they see.
//
//            keys, a tile at a time ->
//          +------+------+------+- - - +
//   row    | full | full | edge | never loaded
//   tiles  +------+------+------+- - - +
//          | full | full | edge |
//          +------+------+------+
//
// Keys and values of a tile are turned, widened and packed once for all rows of the block; the row tiles of the block then
// take turns with it. Rows run over tokens first: row r is token r / heads_per_kv_head and, of the heads that share the KV
// head, number r % heads_per_kv_head.
#pragma once

#include <cstdint>

#include "attention/problem.h"

namespace rotary {

/// Rows of a block when computing in T, on the active instruction set.
template <class T>
std::int64_t rows_per_block() noexcept;

/// Computes the rows from first_row on, as many as a block has, of one KV head: out and, where asked for, lse. Its
/// workspace depends on the widths of the heads alone. A row's result does not depend on which rows share its block.
template <class T>
void attend_block(const AttentionProblem& problem, std::int64_t batch, std::int64_t kv_head, std::int64_t first_row);

}  // namespace rotary
