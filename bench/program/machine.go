package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Facts are where figures come from. What cannot be found out stays empty.
type Facts struct {
	Time       time.Time `json:"time"`
	CPU        string    `json:"cpu"`
	Processors int       `json:"processors"`
	MemoryGB   float64   `json:"memoryGB"`
	Kernel     string    `json:"kernel"`
	Go         string    `json:"go"`
	Load       string    `json:"load"` // when inspected, over 1, 5, and 15 minutes
	Commit     string    `json:"commit"`
}

func (f Facts) String() string {
	return fmt.Sprintf("%s, %d processors, %.0f GB, kernel %s, %s, load %s",
		f.CPU, f.Processors, f.MemoryGB, f.Kernel, f.Go, f.Load)
}

// Inspect returns the facts as they are now. The commit is the one checked out in the
// current folder.
func Inspect(ctx context.Context) Facts {
	f := Facts{
		Time: time.Now().UTC().Truncate(time.Second), Processors: runtime.NumCPU(), Go: runtime.Version(),
		CPU: field("/proc/cpuinfo", "model name"), Kernel: strings.TrimSpace(Content("/proc/sys/kernel/osrelease")),
		Commit: FirstLine(ctx, "git", "rev-parse", "--short", "HEAD"),
	}
	if loads := strings.Fields(Content("/proc/loadavg")); len(loads) > 2 {
		f.Load = strings.Join(loads[:3], " ")
	}
	var kb float64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%f", &kb); err == nil {
		f.MemoryGB = kb * 1024 / 1e9
	}
	return f
}

// Content returns a file of /proc or the like, or nothing where there is none.
func Content(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "" // another system
	}
	return string(data)
}

func field(file, name string) string {
	for line := range strings.Lines(Content(file)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// FirstLine returns the first line that a program prints, whatever it exits
// with, or "no NAME" if it cannot be run.
func FirstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // wrk -v exits with 1
		return "no " + name
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}
