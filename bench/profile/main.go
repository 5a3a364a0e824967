// Command profile makes the profile that the compiler makes uniflow by: it loads ping and the
// API of orders, runs the streams and the job of bench/streams, and merges the CPU profiles. It
// is the program that is profiled, too, as a flag for profiles labels goroutines, and the
// functions that do so would be inlined.
//
//	go run ./bench/profile [-o FILE] [-span 20s]
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// profileTo names the folder that this program, run as uniflow, writes a profile to.
const profileTo = "UNIFLOW_PROFILE_TO"

func main() {
	if dir := os.Getenv(profileTo); dir != "" {
		os.Exit(profiled(dir))
	}
	program.Main(run)
}

// profiled is uniflow, with a profile.
func profiled(dir string) (code int) {
	f, err := os.CreateTemp(dir, "cpu")
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err == nil {
		code = cli.Main(context.Background(), os.Args[1:], app.System())
		pprof.StopCPUProfile()
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		return cmp.Or(code, program.Trouble)
	}
	return code
}

func run(ctx context.Context, args []string, _, stderr io.Writer) int {
	flags := program.Flags("profile")
	out := flags.String("o", "cmd/uniflow/default.pgo", "write the profile to `FILE`")
	span := flags.Duration("span", 20*time.Second, "load each server for `TIME`")
	check := func() error {
		if *span <= 0 {
			return errors.New("-span must be positive")
		}
		return nil
	}
	return program.Run(flags, args, stderr, check, func() (bool, error) {
		return true, makeProfile(ctx, *out, *span, stderr)
	})
}

func makeProfile(ctx context.Context, out string, span time.Duration, log io.Writer) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	lab, err := program.NewLab(self, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	env := profileTo + "=" + lab.File("profiles")
	if err := os.Mkdir(lab.File("profiles"), 0o700); err != nil {
		return err
	}
	for _, w := range []server.Workload{server.PingWorkload(), server.ShopWorkload()} {
		lab.Progress("%s", w.Name)
		if _, err := w.Run(ctx, self, lab.Dir, append(os.Environ(), env), span); err != nil {
			return err
		}
	}
	lab.Progress("streams and a job")
	streams := []string{"run", "-pgo=off", "./bench/streams", "-only", "S3,S6", "-rounds", "1", "-scale", "0.4", "-binary", self, "-out", lab.Dir}
	if _, err := (program.Toolchain{Env: []string{env}}).Do(ctx, streams...); err != nil {
		return err
	}
	return merge(lab.File("profiles"), out)
}

// merge writes the profiles of a folder as one.
func merge(dir, out string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var all []*profile.Profile
	for _, file := range files {
		p, err := program.ReadProfile(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(merged.Write(f), f.Close())
}
