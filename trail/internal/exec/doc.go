// Package exec answers queries from segments: it plans a query, runs its kernel
// over the segments with a few workers, and joins what they found.
//
// Read Run, then plan.go (what is decided before any row is read), filter.go
// (conditions become tables over dictionary codes), view.go (the rows of a shard,
// and the masks of the matchers that match them) and one kernel, retention.go.
//
// # How a query runs
//
//  1. A builder makes the plan. The query becomes matchers, such as the steps of a
//     funnel, and a kernel. For each segment, the plan has the event codes that each
//     matcher means and the codes of a property that pass a filter. Segments in which
//     nothing can match are left out. The hashes of the users are divided into shards
//     of some 64 Ki rows.
//  2. Each worker gets a fold from the kernel, and takes shards. For a shard, it finds
//     the one range of rows in every segment, which is a view, and computes a mask of
//     matchers for each row, unless summaries of blocks or sets of events
//     show that none matches (stretch.go). A view without a mask is left out before its
//     times and other columns are read. The fold then goes from user to user: segments are sorted
//     by user, so the events of a user are a few ranges of rows, one after the other.
//  3. When all workers have ended, the folds are joined into the kernel, and the kernel
//     makes the answer. A segmentation with limit takes two passes: the first counts the
//     events of each group, and the second measures the groups with the most, and the
//     others as one.
//
// Groups of a segmentation are numbered by a lexicon (lexicon.go), which joins the
// dictionaries of the segments before any row is read, or else by the dictionary of each
// worker (dictionary.go). Their measures are the cells of a grid (grid.go) of groups and
// buckets.
//
// # Invariants
//
//   - A kernel sees rows through their masks alone: filters, time bounds, deleted
//     users and cohorts all end up there.
//   - The rows of one user are never read by two workers, so what workers found
//     is only added up.
//   - A sample is the users with the lowest hashes: a range of each segment. What
//     lies outside it is never read.
//   - Between shards a worker takes no lock, and what it allocates is its own. The
//     atomic counters are the next shard, and the budget, which is used when
//     something grows.
//
// It must not know where segments come from, nor how a query was written.
package exec
