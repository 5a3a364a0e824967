//go:build linux && !race

package footprint

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// What packages may do before main, as the runtime's trace of their initialisation has it: all
// of them, one of this module, and one of another module unless largeInits has it.
const (
	maxInitBytes  = 4.1e6
	maxInitAllocs = 38_000
	maxOwnInit    = 32e3
	maxOtherInit  = 110e3

	// maxInitTime is ten times what it takes on a machine that does nothing else.
	maxInitTime = 100 * time.Millisecond
)

// largeInits are packages of other modules that may allocate more before main, with the reason.
var largeInits = map[string]float64{
	"github.com/santhosh-tekuri/jsonschema/v6":     1.8e6, // compiles the schemas of five drafts
	"github.com/minio/minio-go/v7/pkg/s3utils":     300e3, // regular expressions of the names of buckets and hosts
	"google.golang.org/protobuf/reflect/protodesc": 200e3, // reads the descriptor of descriptors
	"github.com/google/pprof/profile":              170e3, // regular expressions of old formats; goja needs it as well
	"github.com/dlclark/regexp2/v2/syntax":         160e3, // Unicode categories by name
}

// An initialisation is what one package did before main.
type initialisation struct {
	pkg           string
	clock         time.Duration
	bytes, allocs float64
}

// beforeMain holds what the packages of a program do before main within the limits.
func beforeMain(t *testing.T, program string) {
	all := initialisations(t, program)
	var bytes, allocs float64
	var clock time.Duration
	met := make(map[string]bool)
	for _, i := range all {
		bytes, allocs, clock = bytes+i.bytes, allocs+i.allocs, clock+i.clock
		limit := maxOtherInit
		if strings.HasPrefix(i.pkg, "github.com/uniflow-labs/") {
			limit = maxOwnInit
		}
		if large, ok := largeInits[i.pkg]; ok && i.bytes > limit {
			limit, met[i.pkg] = large, true
		}
		if i.bytes > limit {
			t.Errorf("%s: got %.0f bytes before main, want at most %.0f: make it lazy, for instance with sync.OnceValue", i.pkg, i.bytes, limit)
		}
	}
	for pkg := range maps.Keys(largeInits) {
		if !met[pkg] {
			t.Errorf("%s: is not linked, or has become small: take it out of largeInits", pkg)
		}
	}
	if bytes > maxInitBytes || allocs > maxInitAllocs {
		t.Errorf("got %.0f bytes and %.0f allocations before main, want at most %.0f and %.0f", bytes, allocs, maxInitBytes, float64(maxInitAllocs))
	}
	for range starts - 1 { // the least counts, as other programs run as well
		again := time.Duration(0)
		for _, i := range initialisations(t, program) {
			again += i.clock
		}
		clock = min(clock, again)
	}
	if clock > maxInitTime {
		t.Errorf("got %s before main, want at most %s", clock, maxInitTime)
	}
	slices.SortFunc(all, func(a, b initialisation) int { return int(b.bytes - a.bytes) })
	for _, i := range all[:10] {
		t.Logf("%9.0f bytes %6.0f allocations %8s  %s", i.bytes, i.allocs, i.clock, i.pkg)
	}
	t.Logf("%9.0f bytes %6.0f allocations %8s  in all, %d packages", bytes, allocs, clock, len(all))
}

// noCollection fails if memory is collected before main, which takes longer than most packages.
func noCollection(t *testing.T, program string) {
	cmd := exec.CommandContext(t.Context(), program, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil || strings.Contains(trace.String(), "gc 1 @") {
		t.Errorf("got a collection, or an error %v: %s", err, &trace)
	}
}

// initialisations starts a program and returns what its packages did before main.
func initialisations(t *testing.T, program string) (all []initialisation) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &trace)
	}
	for line := range strings.Lines(trace.String()) {
		var i initialisation
		var at, clock float64
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %f bytes, %f allocs", &i.pkg, &at, &clock, &i.bytes, &i.allocs); n == 5 {
			i.clock = time.Duration(clock * float64(time.Millisecond))
			all = append(all, i)
		}
	}
	if len(all) < 100 {
		t.Fatalf("got %d packages, want those of the program: %s", len(all), &trace)
	}
	return all
}
