// Package lake runs examples/lake.yaml: changes of PostgreSQL become Parquet on S3, while the program
// is killed and its document reloaded, and DuckDB sums them up. It is a module of its own, because the
// driver of DuckDB is C.
package lake
