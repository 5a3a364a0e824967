package arch

import (
	"path"
	"slices"
)

// A layer is a group of packages that stand equally high.
type layer struct {
	title    string
	packages []string // folders, "" for the root; "nodes/*" stands for each folder in nodes by itself
}

// layers lists the packages from the bottom up. A package may import those of the layers
// below its own, and what uses allows within its own. A package that is not listed belongs
// to the nearest folder above it that is.
var layers = []layer{
	{"Tools that know nothing of the product", []string{
		"internal/ground/spell", "internal/ground/invariant", "internal/ground/leak", "internal/ground/kill", "internal/ground/faultproxy", "internal/ground/show",
		"internal/ground/syncbuffer", "internal/ground/freeport", "internal/graph", "internal/servertest", "internal/ground/vfs", "internal/ground/jsonscan", "internal/ground/doctree"}},
	{"Payloads, findings, fields of a config, events, and records of files", []string{
		"value", "diag", "schema", "internal/ground/spool", "trail/event", "internal/records", "internal/records/parquet"}},
	{"Parts of the libraries, formats, and small parts of the engine", []string{
		"internal/redact", "internal/memory", "internal/effect", "internal/clock", "internal/lifecycle", "internal/yamltree", "lock", "batch", "journal",
		"trail/query", "trail/internal/segment", "trail/internal/tabular", "format", "value/wire"}},
	{"What stores of journals in SQL share", []string{"journal/internal/sqlstore"}},
	{"Stores of journals, and their tests", []string{"journal/memory", "journal/sqlite", "journal/journaltest"}},
	{"The executor of queries", []string{"trail/internal/exec", "trail/dialect"}},
	{"The event store", []string{"trail"}},
	{"The loader, and the references that tests compare with", []string{"batch/internal/oracle", "internal/loader", "internal/trailtest"}},
	{"The contract for kinds, documents, languages, and watching", []string{
		"node", "spec", "lang", "observe", "observe/prom", "observe/flight", "internal/loader/trailstore"}},
	{"What answers of HTTP mean, fields, and what kinds keep", []string{"node/envelope", "node/field", "node/state"}},
	{"What several kinds share", []string{
		"node/accept", "node/content", "node/glob", "node/httpclient", "node/input", "node/meter", "node/stream", "node/handover", "node/jsonschema", "node/openapi", "node/protofile", "node/session", "internal/waits"}},
	{"Clients that several kinds share", []string{"nodes/redis/client"}},
	{"What sends timelines", []string{"observe/otlp"}},
	{"Kinds by name", []string{"internal/registry"}},
	{"Sub-graphs, and the rules of the linter", []string{"internal/expand", "internal/check"}},
	{"The compiler", []string{"internal/compile"}},
	{"The executor of processes, and the kinds", []string{"internal/run", "nodes/*"}},
	{"What an engine shows of its workflow", []string{"internal/inspect", "internal/totals", "internal/durable"}},
	{"The embedding API, and the list of kinds", []string{"", "nodes/std", "internal/flame"}},
	{"Pictures of workflows, and descriptions of kinds", []string{"internal/diagram", "internal/cli/reference"}},
	{"What a running program answers", []string{"internal/api"}},
	{"What its page asks for, and what is kept for it", []string{"internal/console", "internal/deadletter", "internal/debug", "internal/recent", "internal/runs"}},
	{"What editors ask for", []string{"internal/language"}},
	{"What changes documents", []string{"internal/edit"}},
	{"Tests of workflows", []string{"internal/suite"}},
	{"Tests of kinds", []string{"flowtest"}},
	{"Tests of connectors", []string{"node/stream/streamtest"}},
	{"What commands share", []string{"internal/admin", "internal/cli/app", "internal/cli/lsp"}},
	{"Settings", []string{"internal/cli/app/apptest", "internal/cli/settings", "internal/cli/mcptools"}},
	{"Commands", []string{"internal/cli/build", "internal/cli/flow", "internal/cli/profile", "internal/cli/top", "internal/cli/trail"}},
	{"The command of the loader", []string{"internal/cli/loader"}},
	{"The command line, and generated pages", []string{"internal/cli", "internal/docgen", "internal/site", "internal/arch"}},
	{"The command line for programs with kinds of their own", []string{"cli"}},
	{"Programs, benchmarks and tests of the whole", []string{"cmd", "bench", "examples", "kinds", "test", "batch/faults"}},
}

// uses are the imports allowed within a layer, with the reason.
var uses = map[string]string{
	"internal/servertest -> internal/ground/freeport": "servers of tests need ports",
	"internal/waits -> node/state":                    "who waits stands in queues by key",
	"node/input -> node/stream":                       "the records of files are messages",
	"nodes/ai -> nodes/mcp":                           "a model may call the tools of servers",
	"nodes/external -> nodes/wasm":                    "a folder with a module is a kind, too",
	"nodes/core -> nodes/data":                        "answers and limits are kept in its databases",
	"nodes/dialogue -> nodes/data":                    "sessions are kept in its databases",
	"nodes/streams -> nodes/data":                     "keys are marked in its databases",
	"nodes/postgres -> nodes/data":                    "values of PostgreSQL are the same in both",
	"schema -> value":                                 "a config holds values",
	"schema -> diag":                                  "a config reports what is wrong with it",
	"observe -> node":                                 "an observer is told what nodes do",
	"observe/prom -> observe":                         "it shows metrics",
	"observe/prom -> node":                            "it shows what nodes report of themselves",
	"observe/flight -> observe":                       "it keeps timelines",
	"internal/docgen -> internal/cli":                 "it writes the pages that the command line shows",
	"internal/docgen -> internal/arch":                "it writes the map of packages",
	"internal/docgen -> internal/site":                "it makes the site of the pages",
}

// never are imports that the layers would allow.
var never = map[string]string{
	" -> nodes":         "the host hands the kinds to an engine",
	"nodes -> internal": "kinds are written against the public contract",
	"spec -> node":      "documents know no kinds",
	"node -> spec":      "node authors see no documents",
	"batch -> value":    "another service links batch alone",
	"batch -> schema":   "another service links batch alone",
	"batch -> diag":     "another service links batch alone",
	"trail -> value":    "another service links trail alone",
	"trail -> schema":   "another service links trail alone",
	"trail -> diag":     "another service links trail alone",
}

// A part is a share of the code, for the table of sizes.
type part struct {
	title, why string
	packages   []string // folders; a package belongs to the part with the nearest folder
}

var parts = []part{
	{"engine and languages", "the two languages take most: limits that hold against hostile code, and CEL on payloads as they are", []string{
		"", "value", "diag", "schema", "spec", "lang", "node", "observe", "cli", "cmd", "internal"}},
	{"kinds", "HTTP takes a quarter: limits for each client, certificates, WebSockets; chat and SQL follow", []string{"nodes", "format", "node/input", "node/stream"}},
	{"events: `batch`, `trail`, the loader", "`trail` is a database: a file format, five kinds of query, each as a kernel and as SQL, and three formats of imports", []string{
		"batch", "trail", "lock", "internal/loader"}},
	{"`internal/ground`", "one log, one reader of documents, one file system, for both", []string{"internal/ground"}},
	{"command line", "five products; help and errors are half of it", []string{"internal/cli", "internal/admin", "internal/api", "internal/console", "internal/docgen", "internal/deadletter", "internal/debug", "internal/recent", "internal/runs", "internal/site", "internal/suite"}},
	{"benchmarks and the guard", "baselines in several forms, other products, statistics", []string{"bench"}},
	{"test support", "the reference of `trail`, receivers and disks that fail on purpose, kits for kinds and connectors, databases for tests", []string{
		"test", "examples", "kinds", "flowtest", "internal/arch", "internal/servertest", "internal/trailtest", "internal/ground/faultproxy", "internal/ground/freeport",
		"internal/ground/invariant", "internal/ground/kill", "internal/ground/leak", "internal/ground/syncbuffer", "internal/ground/vfs/vfstest", "internal/cli/app/apptest", "internal/clock",
		"node/stream/streamtest", "nodes/ai/modeltest", "nodes/wasm/wasmtest", "batch/faults", "batch/internal/oracle", "journal/journaltest"}},
}

// place returns the layer of a package and the folder that stands for it in layers.
func place(pkg string) (level int, listed string, ok bool) {
	for folder, child := pkg, ""; ; folder, child = parent(folder), folder {
		for i, l := range layers {
			switch {
			case slices.Contains(l.packages, folder):
				return i, folder, true
			case child != "" && slices.Contains(l.packages, folder+"/*"):
				return i, child, true
			}
		}
		if folder == "" || parent(folder) == "" {
			return 0, "", false
		}
	}
}

// partOf returns the index of the part that a package belongs to.
func partOf(pkg string) int {
	for folder := pkg; ; folder = parent(folder) {
		if i := slices.IndexFunc(parts, func(p part) bool { return slices.Contains(p.packages, folder) }); i >= 0 {
			return i
		}
	}
}

// parent returns the folder above one, "" for the root.
func parent(folder string) string {
	if up := path.Dir(folder); up != "." {
		return up
	}
	return ""
}
