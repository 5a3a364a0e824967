// Package flame analyses a CPU profile: how much time each node, kind and function
// took, and how the calls nest.
//
// Read [Read] and [Profile] first, then rows.go (the tables), tree.go (the tree of
// calls) and svg.go (the flame graph).
//
// Invariants: each sample counts to one [Owner], so the rows of nodes, the rows of kinds
// and the flat times of functions each add up to [Profile.CPU]. The same profile gives
// the same rows and the same bytes. Names come from documents and from profiles of
// unknown origin, so escape them before showing them.
//
// The package must not know where profiles come from, or where they are shown.
package flame

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/internal/run"
)

// ErrFormat is the error of data that is not a profile.
var ErrFormat = errors.New("not a profile")

// ErrNotCPU is the error of a profile of memory, locks and so on.
var ErrNotCPU = errors.New("not a profile of the CPU")

const (
	// maxSize is how large an unpacked profile may be, in bytes. The profile of a busy
	// server has some hundred kilobytes.
	maxSize = 256 << 20

	// maxDepth bounds the frames of a stack, from the innermost. Go keeps 128.
	maxDepth = 512
)

// A Profile is a CPU profile by owner and stack. It is immutable.
type Profile struct {
	Samples int64         // how many there are
	CPU     time.Duration // that was spent, on all processors together
	Wall    time.Duration // how long the profile was taken; 0 if unknown

	samples []sample
}

// A sample is a stack and the time spent in it.
type sample struct {
	owner Owner
	stack []string // of functions, outermost first; never empty
	time  time.Duration
}

// An Owner is what time counts to: a node, or else one of the names in parentheses.
type Owner struct {
	Node      string // its name, or its kind and ID
	Kind      string // empty if there is no node
	Namespace string // empty if there is no node
}

// The owners of time without a node.
const (
	Collector = "(garbage collection)"
	Runtime   = "(runtime)"   // Go's scheduler, timers and network poller
	Profiling = "(profiling)" // taking the profile
	Outside   = "(outside)"   // goroutines that no node has started
)

// Read reads a profile as Go's runtime writes it, compressed or not. The error wraps
// [ErrFormat] or [ErrNotCPU] if this package cannot use the data.
func Read(r io.Reader) (*Profile, error) { return readUpTo(r, maxSize) }

func readUpTo(r io.Reader, size int64) (*Profile, error) {
	data, err := io.ReadAll(io.LimitReader(r, size+1))
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		unpack, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if data, err = io.ReadAll(io.LimitReader(unpack, size+1)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
	if int64(len(data)) > size {
		return nil, fmt.Errorf("%w: it has more than %d MiB", ErrFormat, size>>20)
	}
	parsed, err := profile.ParseUncompressed(data)
	if err == nil {
		err = parsed.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return convert(parsed)
}

func convert(parsed *profile.Profile) (*Profile, error) {
	at, counts := -1, -1
	var types []string
	for i, t := range parsed.SampleType {
		switch types = append(types, t.Type); {
		case t.Type == "cpu" && t.Unit == "nanoseconds":
			at = i
		case t.Type == "samples" && t.Unit == "count":
			counts = i
		}
	}
	switch {
	case len(types) == 0:
		return nil, fmt.Errorf("%w: it has no sample types", ErrFormat)
	case at < 0:
		return nil, fmt.Errorf("%w: it holds %s", ErrNotCPU, strings.Join(types, ", "))
	}
	p := &Profile{Wall: time.Duration(max(0, parsed.DurationNanos))}
	names := make(map[*profile.Function]string, len(parsed.Function))
	for _, f := range parsed.Function {
		names[f] = cmp.Or(f.Name, unknown)
	}
	for _, s := range parsed.Sample {
		spent, n := s.Value[at], int64(1)
		if counts >= 0 {
			n = s.Value[counts]
		}
		if spent <= 0 || n <= 0 {
			continue // from a difference of two profiles
		}
		// If these sums do not overflow, no sum of parts does.
		if spent > math.MaxInt64-int64(p.CPU) || n > math.MaxInt64-p.Samples {
			return nil, fmt.Errorf("%w: it holds more time than there is", ErrFormat)
		}
		p.CPU += time.Duration(spent)
		p.Samples += n
		stack := stackOf(s, names)
		p.samples = append(p.samples, sample{ownerOf(s, stack), stack, time.Duration(spent)})
	}
	return p, nil
}

const unknown = "(unknown)"

// stackOf returns the functions of a sample, outermost first, with inlined ones. There
// is at least one.
func stackOf(s *profile.Sample, names map[*profile.Function]string) []string {
	var stack []string
	for _, at := range s.Location { // innermost first, as lines are
		if len(at.Line) == 0 {
			stack = append(stack, fmt.Sprintf("%#x", at.Address))
		}
		for _, line := range at.Line {
			name, ok := names[line.Function]
			if !ok {
				name = unknown
			}
			stack = append(stack, name)
			if len(stack) == maxDepth {
				break
			}
		}
		if len(stack) >= maxDepth {
			break
		}
	}
	if len(stack) == 0 {
		return []string{unknown}
	}
	slices.Reverse(stack)
	return stack
}

func ownerOf(s *profile.Sample, stack []string) Owner {
	label := func(key string) string {
		if values := s.Label[key]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
	if node := label(run.LabelNode); node != "" {
		return Owner{node, label(run.LabelKind), label(run.LabelNamespace)}
	}
	return Owner{Node: unowned(stack)}
}

func unowned(stack []string) string {
	runtimeOnly := true
	for _, name := range stack {
		switch {
		case collects(name):
			return Collector
		case strings.HasPrefix(name, "runtime/pprof.") && !labels(name):
			return Profiling
		case !ofRuntime(name) && name != unknown:
			runtimeOnly = false
		}
	}
	if runtimeOnly {
		return Runtime // also where the runtime did not know the stack
	}
	return Outside
}

// labels reports whether a function of runtime/pprof belongs to the labelling of
// goroutines: programs run within [pprof.Do].
func labels(name string) bool {
	return begins(name[len("runtime/pprof."):], "Do", "SetGoroutineLabels", "WithLabels", "Label", "ForLabels", "mergeLabelSets", "(*labelMap)", "labelMap")
}

func begins(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// collects reports whether a function is the root of a part of the garbage collector,
// or stands for it where there is no stack. gcAssistAlloc counts to the allocating node.
func collects(name string) bool {
	return slices.Contains([]string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.forcegchelper", "runtime.gcStart", "runtime.GC", "runtime._GC"}, name)
}

func ofRuntime(name string) bool {
	return begins(name, "runtime.", "internal/runtime/", "runtime/internal/")
}

// underneath reports whether a function allocates, copies, locks or calls the system:
// its caller can be changed, and it cannot.
func underneath(name string) bool {
	return begins(name, "runtime.", "runtime/", "internal/", "sync.", "sync/", "syscall.")
}

// PackageOf returns the import path in the name of a function, such as net/http
// of "net/http.(*conn).serve"; empty if there is none.
func PackageOf(function string) string {
	path, _ := cut(function)
	return path
}

// Short returns the name of a function without type arguments and, unless it is
// of the standard library, with no more of its package's path than the last word.
func Short(function string) string {
	path, rest := cut(function)
	if path == "" {
		return function
	}
	first := strings.LastIndexByte(path, '/') + 1
	if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") {
		first = 0
	}
	if first > 0 && isVersion(path[first:]) {
		first = strings.LastIndexByte(path[:first-1], '/') + 1
	}
	return path[first:] + "." + withoutTypes(rest)
}

// cut splits the name of a function after the path of its package. Dots in the last
// element of the path are %2e.
func cut(function string) (path, rest string) {
	end := len(function)
	if i := strings.IndexAny(function, "[("); i >= 0 { // type arguments have paths of their own
		end = i
	}
	slash := strings.LastIndexByte(function[:end], '/') + 1
	dot := strings.IndexByte(function[slash:end], '.')
	if dot <= 0 {
		return "", function
	}
	return strings.ReplaceAll(function[:slash+dot], "%2e", "."), function[slash+dot+1:]
}

func isVersion(word string) bool {
	return len(word) > 1 && word[0] == 'v' && strings.Trim(word[1:], "0123456789") == ""
}

func withoutTypes(name string) string {
	var b strings.Builder
	depth := 0
	for _, r := range name {
		switch {
		case r == '[':
			if depth++; depth == 1 {
				b.WriteString("[…]")
			}
		case r == ']' && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}
