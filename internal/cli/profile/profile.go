// Package profile is the command uniflow profile: it takes a CPU profile from an admin
// server, from a file or from standard input, and shows which nodes spent the time.
//
// The package must not know how samples are attributed to nodes: package flame does that.
package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/flame"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

const profileLong = `Profile shows where a running program spends its CPU time: in which nodes, and in
which functions of them. ADDRESS is the address of its admin server, see start --admin. If
that is not a loopback address, a token is required. FILE is a CPU profile written by
--output or by start --cpuprofile; "-" is standard input.

Time is attributed to the node whose code is running, and counts all processors. Rows in
parentheses belong to no node: (garbage collection), (runtime) for Go's scheduler, timers
and network poller, (profiling) for taking the profile, and (outside) for goroutines that
no node has started.

--svg writes a flame graph for browsers: nodes first, below them their calls. Click to
zoom, press / to search.`

const profileExample = `  uniflow profile 127.0.0.1:9000
  uniflow profile 127.0.0.1:9000 --seconds 30 --by function --top 50
  uniflow profile 127.0.0.1:9000 --svg cpu.svg --output cpu.pprof
  uniflow profile cpu.pprof --by kind`

// commands are the commands of one run.
type commands struct{ *app.App }

type options struct {
	*settings.Settings
	seconds int
	by      string
	top     int
	svg     string
	output  string
	asJSON  bool
}

func orders() []string { return []string{"node", "kind", "function"} }

// Command is the command profile.
func Command(shared *app.App) *cobra.Command {
	a := commands{shared}
	o := &options{Settings: settings.New()}
	cmd := &cobra.Command{
		Use:     "profile ADDRESS|FILE",
		Short:   "Show which nodes use the CPU",
		Long:    profileLong,
		Example: profileExample,
		Args:    app.OneArg("server or file", "write profile 127.0.0.1:9000, as start --admin names it"),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&o.seconds, "seconds", 10, "measure for `N` seconds, 1 to 3600")
	flags.StringVar(&o.by, "by", "node", "group by `WHAT`: node, kind or function")
	flags.IntVar(&o.top, "top", 20, "print the `N` largest rows and the sum of the others; 0 prints all")
	flags.StringVar(&o.svg, "svg", "", "write a flame graph to `FILE`; \"-\" prints it instead of the table")
	flags.StringVarP(&o.output, "output", "o", "", "write the profile to `FILE` for go tool pprof; \"-\" prints it instead of the table")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	o.AddFlags(cmd, settings.AdminToken)
	app.CompleteFlag(cmd, "by", orders())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(cmd.CommandPath()); err != nil {
			return err
		}
		from, err := profileSource(cmd.CommandPath(), args[0])
		if err != nil {
			return err
		}
		if from.url != nil {
			if err := o.Resolve(a.App, cmd); err != nil {
				return err
			}
		}
		return a.profile(cmd.Context(), from, o)
	}
	return cmd
}

// check refuses options that cannot be used, before the profile is taken.
func (o *options) check(command string) error {
	switch {
	case o.seconds < 1 || o.seconds > 3600:
		return app.Usagef(command, "", "--seconds must be 1 to 3600, got %d", o.seconds)
	case o.top < 0:
		return app.Usagef(command, "write 0 for all", "--top must not be negative, got %d", o.top)
	}
	if err := app.OneOf(command, "by", o.by, orders()); err != nil {
		return err
	}
	printed := 0
	for _, one := range []bool{o.svg == app.StdinPath, o.output == app.StdinPath, o.asJSON} {
		if one {
			printed++
		}
	}
	if printed > 1 {
		return app.Usagef(command, "name a file for one of them", "--svg -, --output - and --json cannot be combined")
	}
	for _, out := range []struct{ flag, file string }{{"--svg", o.svg}, {"--output", o.output}} {
		if out.file == "" || out.file == app.StdinPath {
			continue
		}
		if _, err := os.Stat(filepath.Dir(out.file)); err != nil {
			return app.Usagef(command, "", "%s: %w", out.flag, err)
		}
	}
	return nil
}

// A source is where a profile comes from: a server, standard input, or else a
// file.
type source struct {
	name  string   // as it was written
	url   *url.URL // nil if it is not a server
	stdin bool
}

// profileSource decides what an argument is. If a file of that name exists, it is a
// file.
func profileSource(command, arg string) (source, error) {
	const hint = "write an address such as 127.0.0.1:9000, or a file that --cpuprofile has written"
	if arg == app.StdinPath {
		return source{name: "standard input", stdin: true}, nil
	}
	if info, err := os.Stat(arg); err == nil {
		if info.IsDir() {
			return source{}, app.Usagef(command, hint, "%s is a folder", arg)
		}
		return source{name: arg}, nil
	}
	if scheme, _, ok := strings.Cut(arg, "://"); ok {
		u, err := url.Parse(arg)
		if err != nil || scheme != "http" && scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return source{}, app.Usagef(command, hint, "must be http://HOST:PORT, got %q", arg)
		}
		return source{name: arg, url: u}, nil
	}
	host, port, err := net.SplitHostPort(arg)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 || strings.ContainsAny(host, `/\@?#`) {
		return source{}, app.Usagef(command, hint, "%q is neither an address nor a file", arg)
	}
	if host == "" {
		host = "localhost" // a server on all addresses is also on this one
	}
	return source{name: arg, url: &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}}, nil
}

func (a commands) profile(ctx context.Context, from source, o *options) error {
	var data []byte
	var err error
	switch {
	case from.url != nil:
		stop := a.showWait(from.name, o.seconds)
		data, err = fetchProfile(ctx, from, o)
		stop()
	case from.stdin:
		data, err = io.ReadAll(a.Stdin)
	default:
		data, err = os.ReadFile(from.name)
	}
	if err != nil {
		return err
	}
	p, err := flame.Read(bytes.NewReader(data))
	switch {
	case errors.Is(err, flame.ErrNotCPU):
		return failure("go tool pprof shows others", "%s: %w", from.name, err)
	case err != nil && from.url != nil:
		return notAdmin(from, "what it sent is "+err.Error())
	case err != nil:
		return failure("start --cpuprofile and profile --output write profiles", "%s: %w", from.name, err)
	}
	if p.Samples == 0 {
		a.Talk("no samples: the program was idle\n")
	}
	return a.showProfile(p, data, o)
}

// showProfile writes all outputs, even if one cannot be written.
func (a commands) showProfile(p *flame.Profile, data []byte, o *options) error {
	var errs []error
	printed := false
	for _, one := range []struct {
		file string
		data func() []byte
	}{{o.output, func() []byte { return data }}, {o.svg, p.SVG}} {
		switch one.file {
		case "":
		case app.StdinPath:
			printed = true
			errs = append(errs, a.Print(string(one.data())))
		default:
			errs = append(errs, os.WriteFile(one.file, one.data(), 0o644))
		}
	}
	switch {
	case printed:
	case o.asJSON:
		errs = append(errs, a.PrintJSON(newReportJSON(p, o)))
	default:
		errs = append(errs, a.Print(table(p, o)))
	}
	return errors.Join(errs...)
}

// showWait shows on a terminal how much of a profile has been taken, until stop is
// called.
func (a commands) showWait(name string, seconds int) (stop func()) {
	progress := a.Progress()
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		defer progress.End()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for i := 0; ; i++ {
			progress.Line(fmt.Sprintf("profiling %s: %d of %d s", name, min(i, seconds), seconds))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		shown.Wait()
	}
}

const (
	dialTimeout = 10 * time.Second

	// fetchSlack is how much longer than the profile the answer may take.
	fetchSlack = 30 * time.Second

	// maxProfile bounds the answer of a server, in bytes.
	maxProfile = 256 << 20
)

// profilePath is the path of the profile on an admin server.
const profilePath = "debug/pprof/profile"

func fetchProfile(ctx context.Context, from source, o *options) ([]byte, error) {
	u := from.url.JoinPath(profilePath)
	u.RawQuery = url.Values{"seconds": {strconv.Itoa(o.seconds)}}.Encode()
	limit := time.Duration(o.seconds)*time.Second + fetchSlack
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(timed, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if o.AdminToken != "" {
		req.Header.Set("Authorization", "Bearer "+o.AdminToken)
	}
	client := &http.Client{
		// No proxy: an admin server is near, and a proxy must not see its token.
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(resp.Body, maxProfile+1))
		err = errors.Join(err, resp.Body.Close())
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: ended before the profile was taken: %w", from.name, context.Cause(ctx))
	case timed.Err() != nil:
		return nil, fmt.Errorf("%s: no answer within %s", from.name, limit)
	case err != nil:
		return nil, unreachable(from, err)
	case len(data) > maxProfile:
		return nil, notAdmin(from, fmt.Sprintf("it sends more than %d MiB", maxProfile>>20))
	}
	return data, refused(from, resp, data, o)
}

func unreachable(from source, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which the message has
	}
	hint := "is it the address that start --admin names, and does the program run?"
	var dial *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failure(hint, "nothing listens at %s", from.name)
	case errors.As(err, &dial) && dial.Op == "dial":
		return failure(hint, "cannot reach %s: %w", from.name, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return failure("did the program end?", "%s closed the connection before the profile was taken", from.name)
	}
	return notAdmin(from, err.Error())
}

func refused(from source, resp *http.Response, body []byte, o *options) error {
	text, _, _ := strings.Cut(api.ErrorOf(body).Message, "\n")
	text = show.Printable(text)
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	page := err == nil && media == "text/html"
	switch status := resp.StatusCode; {
	case status == http.StatusOK && !page:
		return nil
	case status == http.StatusUnauthorized && o.AdminToken == "":
		return failure("set UNIFLOW_ADMIN_TOKEN to the token of the program", "%s requires a token", from.name)
	case status == http.StatusUnauthorized:
		return failure("set UNIFLOW_ADMIN_TOKEN to the token of the program", "%s does not accept this token", from.name)
	case status == http.StatusInternalServerError && strings.Contains(text, "already in use"):
		return failure("wait until it has ended; start --cpuprofile takes one for as long as the program runs",
			"%s: another CPU profile is being taken of this program", from.name)
	case status == http.StatusBadRequest && strings.Contains(text, "HTTPS") && from.url.Scheme == "http":
		return failure("write https://"+from.url.Host, "%s requires HTTPS", from.name)
	case !page && (status == http.StatusForbidden || status == http.StatusBadRequest || status == http.StatusInternalServerError) && text != "":
		return failure("", "%s: %s: %s", from.name, resp.Status, text)
	}
	what := "it answers " + resp.Status
	if page {
		what += " with a page of HTML"
	}
	return notAdmin(from, what)
}

func notAdmin(from source, why string) error {
	return failure("write the address that start --admin names, not one that serves workflows", "%s is not an admin server: %s", from.name, why)
}

func failure(hint, format string, args ...any) error {
	return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf(format, args...), Hint: hint}
}
