package segment

// BlockRows is the number of rows of a block, the unit of summaries: block b has the
// rows from b*BlockRows on.
const BlockRows = 4096

// PrepareBlocks checks the pages of the summaries of the blocks that rows [lo,hi) lie
// in, and returns their bytes. Occurs and Span may be asked for these blocks from then
// on. A column without summaries takes no bytes.
func (c *Column) PrepareBlocks(lo, hi int) (bytes int64, err error) { return 0, nil }

// Occurs returns which codes the rows of a block have, of a column with at most 64
// codes: bit c for code c, so bit 0 tells that a row has no value. It is not ok if the
// column has no such summary; then any code may occur.
func (c *Column) Occurs(block int) (set uint64, ok bool) { return 0, false }

// Span returns the least and the greatest code of the rows of a block, 0 for the
// missing value included, of a column with more than 64 codes. It is not ok if the
// column has no such summary; then any code may occur.
func (c *Column) Span(block int) (lo, hi uint32, ok bool) { return 0, 0, false }
