package app

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version and revision are set by the linker: see the Makefile and cmd/release.
var version, revision string

// A Build is what is known of the executable, as version --json prints it.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // there were changes that are not in the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Version returns the version of the program.
func Version() string { return ReadBuild().Version }

// ReadBuild returns what is known of this executable.
func ReadBuild() Build {
	v := Build{Version: version, Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v.Version == "" && info.Main.Version != "(devel)" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if v.Version == "" {
		v.Version = "dev"
	}
	return v
}

// Text is the build in a line.
func (v Build) Text() string {
	return fmt.Sprintf("uniflow %s %s %s\n", v.Version, v.Go, v.Platform)
}
