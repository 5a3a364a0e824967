package trailtest

import (
	"fmt"
	"iter"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// GitHub is the data of a place where people keep source code: 15 kinds of events,
// and one user in a hundred is a bot, who together do half of all.
//
// repo is 1 to 1,048,575 in the manner of Zipf, and half of the time the same as in
// the event before; language belongs to repo; action is of some kinds of events alone;
// commits, of push alone, is 1 or more; bot is a boolean.
type GitHub struct {
	Seed   uint64
	Events int
}

// The fields of GitHub.
const (
	githubRepo = iota
	githubLanguage
	githubAction
	githubCommits
	githubBot
)

// Schema returns repo, language, action, commits and bot.
func (GitHub) Schema() event.Schema {
	return event.Schema{
		githubRepo:     {Name: "repo", Type: event.Int},
		githubLanguage: {Name: "language", Type: event.String},
		githubAction:   {Name: "action", Type: event.String},
		githubCommits:  {Name: "commits", Type: event.Int},
		githubBot:      {Name: "bot", Type: event.Bool},
	}
}

// Rows yields the rows; Seed and Events alone decide about them.
func (g GitHub) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		const (
			perSession = 6
			four       = 2 * one // log2 of the median of a person's events
			spread     = 124500  // log2 of the deviation: e^1.317
			botMedian  = 613000  // log2 of the median of a bot's
			botSpread  = 100000
			repos      = 20 * one
		)
		pow, week := newPow2Table(), newCalendar()
		kinds := newZipf(15)
		names := strings.Fields("push create pull_request watch issue_comment delete issues review review_comment fork release commit_comment wiki member public")
		languages := stringValues("", "Python", "JavaScript", "TypeScript", "Java", "Go", "C++", "C", "Rust", "Shell", "PHP", "Ruby", "HTML", "Kotlin", "Swift", "Zig")
		actions := map[string][]event.Value{
			"pull_request":  stringValues("opened", "closed", "reopened", "opened"),
			"issues":        stringValues("opened", "closed", "reopened", "closed"),
			"issue_comment": stringValues("created", "created", "edited", "deleted"),
			"watch":         stringValues("started", "started", "started", "started"),
			"review":        stringValues("approved", "commented", "approved", "changes_requested"),
		}
		row := &Row{Values: make([]event.Value, 5)}
		buffer := make([]byte, 0, 32)
		left := g.Events
		for user := uint64(1); left > 0; user++ {
			s := newSource(g.Seed, user)
			bot := s.perMille(10)
			median, deviation := int64(four), int64(spread)
			if bot {
				median, deviation = botMedian, botSpread
			}
			n := min(int(min(pow.logNormal(&s, median, deviation), 20_000)), left)
			left -= n
			row.User = numbered(buffer, "actor", user)
			row.Values[githubBot] = event.BoolOf(bot)
			v := newVisitor(s, n, perSession)
			repo := pow.logUniform(&v.source, repos)
			for v.step() {
				if v.fresh {
					v.open(week, perSession)
				}
				if v.perMille(500) {
					repo = pow.logUniform(&v.source, repos)
				}
				row.Name = names[kinds.pick(&v.source)]
				if bot && v.perMille(600) {
					row.Name = "push"
				}
				row.Values[githubRepo] = event.IntOf(repo)
				row.Values[githubLanguage] = languages[mix(uint64(repo))%uint64(len(languages))]
				row.Values[githubAction] = event.Value{}
				if list := actions[row.Name]; list != nil {
					row.Values[githubAction] = list[v.below(4)]
				}
				row.Values[githubCommits] = event.Value{}
				if row.Name == "push" {
					row.Values[githubCommits] = event.IntOf(pow.logUniform(&v.source, 6*one))
				}
				row.Time = v.millis()
				if !yield(row) {
					return
				}
			}
		}
	}
}

// Hits is the data of a web site: three kinds of events, hit, click and leave, and
// users with long tails of pages.
//
// url is one of 1,048,575 in the manner of Zipf; referrer, half of the time
// missing, and browser are for a session; status is 200 mostly; took is in seconds,
// with three decimals, of hit alone.
type Hits struct {
	Seed   uint64
	Events int
}

// The fields of Hits.
const (
	hitsURL = iota
	hitsReferrer
	hitsBrowser
	hitsStatus
	hitsTook
)

// Schema returns url, referrer, browser, status and took.
func (Hits) Schema() event.Schema {
	return event.Schema{
		hitsURL:      {Name: "url", Type: event.String},
		hitsReferrer: {Name: "referrer", Type: event.String},
		hitsBrowser:  {Name: "browser", Type: event.String},
		hitsStatus:   {Name: "status", Type: event.Int},
		hitsTook:     {Name: "took", Type: event.Float},
	}
}

// Rows yields the rows; Seed and Events alone decide about them. It keeps each url
// that came once.
func (g Hits) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		const (
			perSession = 12
			six        = 169405 // log2 of the median of events
			spread     = 170000
			urls       = 20 * one
			took       = 5 * one // log2 of the median in milliseconds
		)
		pow, week := newPow2Table(), newCalendar()
		referrers := newZipf(200)
		browsers := stringValues("Chrome", "Chrome", "Chrome", "Safari", "Safari", "Firefox", "Edge", "Opera")
		statuses := []event.Value{event.IntOf(200), event.IntOf(404), event.IntOf(301), event.IntOf(500)}
		sections := strings.Fields("news shop help blog docs forum about user")
		pages := make([]event.Value, 1<<20)
		var froms [200]event.Value
		for i := range froms {
			froms[i] = event.StringOf(fmt.Sprintf("https://site%d.example/", i+1))
		}
		row := &Row{Values: make([]event.Value, 5)}
		buffer := make([]byte, 0, 32)
		left := g.Events
		for user := uint64(1); left > 0; user++ {
			s := newSource(g.Seed, user)
			n := min(int(min(pow.logNormal(&s, six, spread), 20_000)), left)
			left -= n
			row.User = numbered(buffer, "", user)
			v := newVisitor(s, n, perSession)
			page := pow.logUniform(&v.source, urls)
			for v.step() {
				if v.fresh {
					v.open(week, perSession)
					row.Values[hitsReferrer] = event.Value{}
					if v.perMille(500) {
						row.Values[hitsReferrer] = froms[referrers.pick(&v.source)]
					}
					row.Values[hitsBrowser] = browsers[v.below(8)]
				}
				r := v.next() % 100
				row.Name = "hit"
				switch {
				case v.fresh || r < 78:
					page = pow.logUniform(&v.source, urls)
				case r < 95:
					row.Name = "click"
				default:
					row.Name = "leave"
				}
				if pages[page].Missing() {
					pages[page] = event.StringOf(fmt.Sprintf("/%s/%d/%x", sections[page%8], mix(uint64(page))%997, page))
				}
				row.Values[hitsURL] = pages[page]
				status, seconds := 0, event.Value{}
				if row.Name == "hit" {
					if q := v.below(1000); q < 40 {
						status = 1 + int(q%3)
					}
					seconds = event.FloatOf(float64(pow.logNormal(&v.source, took, one)) / 1000)
				}
				row.Values[hitsStatus], row.Values[hitsTook] = statuses[status], seconds
				row.Time = v.millis()
				if !yield(row) {
					return
				}
			}
		}
	}
}
