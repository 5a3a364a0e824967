package external

import (
	"encoding/json"
	"os"
	"runtime"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

const codeSandbox = diag.CodeBadNode

// A sandbox is what a program may do. It is sent to the process that sets the limits, and then becomes the
// program: see [Confine].
type sandbox struct {
	Read    []string // files and folders
	Write   []string
	Network bool
	Alone   bool  // it may start no other processes, so the limits of a process are those of the program
	Memory  int64 // bytes of each process; 0 for no limit
	CPU     time.Duration
	Files   int64 // that a process may have open; 0 for no limit
}

func sandboxField() *schema.Field {
	return schema.Group("sandbox", schema.Fields(
		schema.Strings("read").Doc("Files and folders that the program may read, and run. The programs and libraries of the system, and the program itself, need not be named."),
		schema.Strings("write").Doc("Files and folders that the program may change, and read."),
		schema.Bool("network").Default(false).Doc("Lets the program open sockets."),
		schema.Bool("children").Default(true).Doc("Lets the program start other processes. With `false`, `memory`, `cpu` and `files` limit all that it takes."),
		schema.Bytes("memory").Range(1<<20, 1<<46).Doc("How much memory a process of the program may have; no limit unless set."),
		schema.Duration("cpu").Range(float64(time.Second), float64(366*24*time.Hour)).Doc("How much processor time a process may use before it is killed, in whole seconds; no limit unless set."),
		schema.Int("files").Range(8, 1<<20).Doc("How many files a process may have open; the limit of this process unless set."),
	)).Doc("Limits what the program may do, on Linux. Without it, the program may do all that this process may.")
}

// newSandbox returns the limits of a config; nil for none.
func newSandbox(c schema.Config) (*sandbox, error) {
	if !c.Has("sandbox") {
		return nil, nil
	}
	if runtime.GOOS != "linux" {
		return nil, c.Errorf("sandbox", codeSandbox, "programs can only be limited on Linux").WithHint("leave sandbox out, and run the program as a user with few rights")
	}
	g := c.Group("sandbox")
	return &sandbox{
		Read: g.Strings("read"), Write: g.Strings("write"), Network: g.Bool("network"), Alone: !g.Bool("children"),
		Memory: g.Int("memory"), CPU: g.Duration("cpu"), Files: g.Int("files"),
	}, nil
}

// A confinement is what the process that sets the limits is sent.
type confinement struct {
	Sandbox sandbox
	Path    string   // of the program
	Argv    []string // with its name first
}

// argv returns the command line of the process that becomes the program.
func (s *sandbox) argv(l *launcher) ([]string, error) {
	text, err := json.Marshal(confinement{*s, l.path, l.settings.Command})
	if err != nil {
		return nil, err
	}
	return append(l.programs.Confine[:len(l.programs.Confine):len(l.programs.Confine)], string(text)), nil
}

// self is the executable of this process, even if it was replaced meanwhile.
func self() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, _ := os.Executable() // a sandbox was refused before
	return path
}
