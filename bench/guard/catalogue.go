package main

import (
	"regexp"
	"strings"
)

// module is the path that packages have in front.
const module = "github.com/uniflow-labs/uniflow"

// An item is benchmarks of one package that are guarded. If neither side has them,
// the table says so.
type item struct {
	group string // for -only
	pkg   string // from the root of the module
	bench string // what -test.bench takes; sub-benchmarks are found by themselves
	keep  string // a regular expression for names, where some are baselines; all if empty
	cpus  int    // GOMAXPROCS, and how many processors it is pinned to
	long  bool   // an operation takes milliseconds: it is measured for longSlices slices at a time
}

// longSlices makes a measurement of what takes milliseconds 50 operations long. In one
// slice there are 5, with the first collections of garbage among them: the same code was
// up to 20 % slower in a test binary with more dependencies, and up to 17 % in five slices
// where another version collects earlier. Over ten it is equal.
const longSlices = 10

// catalogue is what is guarded, besides the ping workflow from end to end.
func catalogue() []item {
	return []item{
		{"value codec", "value", "^BenchmarkCodec", "/compiled$", 1, false},
		{"JSON", "value", "^Benchmark(JSON|OnDemand)", "/(ours|on_demand|on_demand/unchanged)$", 1, false},
		{"maps", "value", "^BenchmarkMapWith$", "", 1, false},
		{"packet hop", "internal/run", "^BenchmarkHop$", "", 1, false},
		{"process life", "internal/run", "^Benchmark(Process|Call)$", "", 1, false},
		{"unobserved chain", "internal/run", "^BenchmarkObserver$/^observed=false$", "", 1, false},
		// The cost of sharing shows on two processors only.
		{"concurrent processes", "internal/run", "^BenchmarkParallel$", "", 2, false},
		{"watched hops", "internal/run", "^Benchmark(Metrics|Recorder|Labels)$", "^(Metrics/on|Recorder|Labels)$", 1, false},
		{"watched concurrent processes", "internal/run", "^BenchmarkMetricsParallel$/^on$", "", 2, false},
		{"router", "nodes/web/router", "^BenchmarkRouter(Static|Params|Rest)$", "/router$", 1, false},
		{"router by size", "nodes/web/router", "^BenchmarkRouterScale$", "", 1, false},
		{"listener", "nodes/web", "^BenchmarkHandler$", "^Handler/(listener|created)$", 1, false},
		{"sockets", "nodes/web", "^BenchmarkLoopback$/^listener$/^keepalive=true$", "", 2, false},
		{"plain requests", "nodes/web/plain", "^BenchmarkServe$", "/plain$", 2, false},
		{"MIME", "nodes/web", "^BenchmarkMedia", "", 1, false},
		{"bodies", "nodes/web", "^BenchmarkBodies$", "/1KB$", 1, false},
		{"large bodies", "nodes/web", "^BenchmarkBodies$", "/1MB$", 1, true},
		{"CEL", "lang/builtin", "^BenchmarkEval$/^cel$", "", 1, false},
		{"JavaScript", "lang/builtin", "^BenchmarkEval$/^javascript$", "", 1, false},
		{"kinds", "nodes/core", "^Benchmark(Kind|For1000|Reduce1000|Cache|Limit|Assert)$", "", 1, false},
		{"HTTP client", "nodes/client", "^BenchmarkClientOverhead$", "node$", 1, false},
		{"SQLite", "nodes/data", "^BenchmarkSelect100$", "sqlite/node$", 1, false},
		{"batch Add", "batch", "^BenchmarkAdd", "", 1, false},
		{"sources", "node/stream", "^BenchmarkSource$/^order=(none|key_key=self.body.customer)$", "", 1, false},
		{"a source into a sink", "node/stream", "^BenchmarkSource$/^into_a_sink$", "", 1, false},
		{"sinks", "node/stream", "^BenchmarkSink$/^(each|batches)$", "", 1, false},
		{"awaited results", "internal/run", "^BenchmarkAwait$/^uniflow$", "", 1, false},
		{"loader", "internal/loader", "^BenchmarkTake$", "", 1, false},
		{"lock", "lock", "^Benchmark(Uncontended|Contended)", "(^|/)lock(/|$)", 2, false},
		{"trail append", "trail", "^BenchmarkAppendBatch$", "", 1, false},
		{"trail kernels", "trail/internal/exec", "^BenchmarkRun$", "^Run/(funnel|retention|segment|paths)$", 1, false},
		{"trail kernels, no sessions", "trail/internal/exec", "^BenchmarkRunShort$", "^RunShort/(funnel|retention|segment|paths)$", 1, false},
		{"trail kernels, days apart", "trail/internal/exec", "^BenchmarkRunVisits$", "^RunVisits/(funnel|retention|segment)$", 1, false},
	}
}

// A goBench is one benchmark, of an item.
type goBench struct {
	item
	name string // without "Benchmark", as in CodecMapEncode/compiled
}

// id is what the table and the budgets call the benchmark.
func (b goBench) id() string { return b.pkg + "." + b.name }

// pattern is what -test.bench takes for this benchmark only.
func (b goBench) pattern() string {
	parts := strings.Split("Benchmark"+b.name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// kept reports whether the item guards the benchmark of that name.
func (it item) kept(name string) (bool, error) {
	if it.keep == "" {
		return true, nil
	}
	return regexp.MatchString(it.keep, name)
}
