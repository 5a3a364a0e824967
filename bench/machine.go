package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// facts are where the figures come from. What cannot be found out stays empty.
type facts struct {
	Time       time.Time `json:"time"`
	CPU        string    `json:"cpu"`
	Processors int       `json:"processors"`
	MemoryGB   float64   `json:"memoryGB"`
	Kernel     string    `json:"kernel"`
	Go         string    `json:"go"`
	Load       string    `json:"load"` // at the end, over 1, 5, and 15 minutes
	Commit     string    `json:"commit"`
	Wrk        string    `json:"wrk"`
	Ab         string    `json:"ab"`
}

func (f facts) String() string {
	return fmt.Sprintf("%s, %d processors, %.0f GB, kernel %s, %s, load %s, %s, %s",
		f.CPU, f.Processors, f.MemoryGB, f.Kernel, f.Go, f.Load, f.Wrk, f.Ab)
}

func inspect(ctx context.Context) facts {
	f := facts{
		Time: time.Now().UTC().Truncate(time.Second), Processors: runtime.NumCPU(), Go: runtime.Version(),
		CPU: field("/proc/cpuinfo", "model name"), Kernel: strings.TrimSpace(content("/proc/sys/kernel/osrelease")),
		Wrk: firstLine(ctx, "wrk", "-v"), Ab: firstLine(ctx, "ab", "-V"), Commit: firstLine(ctx, "git", "rev-parse", "--short", "HEAD"),
	}
	if loads := strings.Fields(content("/proc/loadavg")); len(loads) > 2 {
		f.Load = strings.Join(loads[:3], " ")
	}
	var kb float64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%f", &kb); err == nil {
		f.MemoryGB = kb * 1024 / 1e9
	}
	return f
}

// content returns a file, or nothing where there is none.
func content(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "" // another system
	}
	return string(data)
}

func field(file, name string) string {
	for line := range strings.Lines(content(file)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // wrk -v exits with 1
		return "no " + name
	}
	line, _, _ := strings.Cut(string(out), "\n")
	line, _, _ = strings.Cut(line, " [") // of epoll and a copyright
	line, _, _ = strings.Cut(line, " <") // of a revision
	return strings.TrimSpace(strings.TrimPrefix(line, "This is "))
}

// write puts the results into the folder.
func write(dir string, figures []byte, f facts) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	machine, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "engine.json"), figures, 0o644),
		os.WriteFile(filepath.Join(dir, "machine.json"), append(machine, '\n'), 0o644),
	)
}
