package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

const readyLong = `Ready asks a program that start --admin runs whether it is ready, and prints its answer.
It is for the health checks of containers, in which there is no other program to ask with.
ADDRESS is that of the admin server; without it, what UNIFLOW_ADMIN or the config file says,
which start reads, too. So does the token.

The exit code is 0 if it is ready, 1 if it is not, with the reasons, and 3 if nothing answers.
With --alive it is 0 as soon as the program answers.`

const readyExample = `  uniflow ready 127.0.0.1:9000
  UNIFLOW_ADMIN=:9000 UNIFLOW_ADMIN_TOKEN=… uniflow ready --alive`

// maxReady bounds the answer of a server, in bytes.
const maxReady = 64 << 10

func readyCommand(a *app.App) *cobra.Command {
	o := settings.New()
	var alive bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "ready [ADDRESS]",
		Short:   "Ask a running program whether it is ready",
		Long:    readyLong,
		Example: readyExample,
		Args:    app.AtMostOneArg("address"),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&alive, "alive", false, "ask only whether it runs")
	flags.DurationVar(&timeout, "timeout", 5*time.Second, "wait for the answer for `DURATION`")
	o.AddAdminFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		address, err := o.ResolveAdmin(a, cmd, args...)
		if err != nil {
			return err
		}
		path := "/readyz"
		if alive {
			path = "/healthz"
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("no answer within %s", timeout))
		defer cancel()
		status, text, err := ask(ctx, "http://"+address+path, o.AdminToken)
		switch {
		case err != nil:
			return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("%s: %w", o.Admin, err), Hint: "does the program run, and is it the address that start --admin names?"}
		case status == http.StatusUnauthorized:
			return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("%s does not accept this token", o.Admin), Hint: "set UNIFLOW_ADMIN_TOKEN to the token of the program"}
		case status == http.StatusServiceUnavailable:
			return &app.ExitError{Code: app.ExitFindings, Err: errors.New(text)}
		case status != http.StatusOK:
			return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("%s is not an admin server: it answers %d", o.Admin, status), Hint: "write the address that start --admin names, not one that serves workflows"}
		}
		return a.Print(text + "\n")
	}
	return cmd
}

// ask returns the status and the text of an answer of an admin server.
func ask(ctx context.Context, address, token string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy, which must not see the token
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxReady))
		err = errors.Join(err, resp.Body.Close())
	}
	if ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL
		}
		return 0, "", err
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	for i, line := range lines {
		lines[i] = show.Printable(line)
	}
	return resp.StatusCode, strings.Join(lines, "\n"), nil
}
