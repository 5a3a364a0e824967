package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// A query is an expression of PromQL, and where it is.
type query struct{ where, expr string }

// queries returns what the board and the alerts ask, which Grafana and Prometheus have read.
func queries(t *testing.T) []query {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.Parse(read(t, "alerts.yaml"), false, model.UTF8Validation, p, nil)
	for _, err := range errs {
		t.Errorf("alerts.yaml: %v", err)
	}
	var all []query
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Annotations["summary"] == "" || r.Annotations["action"] == "" || r.Labels["severity"] == "" {
				t.Errorf("alert %s has no summary, action or severity", r.Alert)
			}
			all = append(all, query{"alert " + r.Alert, r.Expr})
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}

	raw := read(t, "grafana.json")
	var board dashboard.Dashboard
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Errorf("grafana.json: %v", err)
	}
	var asked struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(raw, &asked); err != nil {
		t.Fatal(err)
	}
	alerts := len(all)
	for _, panel := range asked.Panels {
		for _, target := range panel.Targets {
			all = append(all, query{"panel " + panel.Title, target.Expr})
		}
	}
	if len(all) == alerts {
		t.Fatal("the board has no panels")
	}
	for _, v := range asked.Templating.List {
		if series, ok := strings.CutPrefix(v.Query, "label_values("); ok {
			series, _, _ = strings.Cut(series, ", ")
			all = append(all, query{"variable " + v.Name, series})
		}
	}
	return all
}

// checkMetrics checks that each metric that the board or an alert names is exported, with the
// labels that they name, and is in the docs.
func checkMetrics(t *testing.T, exported string) {
	t.Helper()
	names := make(map[string]map[string]bool)
	label := regexp.MustCompile(`([a-z_]+)="`)
	for line := range strings.Lines(exported) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name := line[:strings.IndexAny(line, "{ ")]
		if names[name] == nil {
			names[name] = map[string]bool{"job": true, "instance": true}
		}
		for _, found := range label.FindAllStringSubmatch(line, -1) {
			names[name][found[1]] = true
		}
	}
	docs := ""
	for _, glob := range []string{"../../docs/*.md", "../../docs/*/*.md"} {
		files, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			docs += string(text)
		}
	}
	for _, q := range queries(t) {
		expr := strings.NewReplacer("$__rate_interval", "5m", "$job", "j", "$instance", "i").Replace(q.expr)
		tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
		if err != nil {
			t.Errorf("%s: %v", q.where, err)
			continue
		}
		parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
			selector, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			for _, m := range selector.LabelMatchers {
				if m.Name != model.MetricNameLabel {
					continue
				}
				found := 0
				for name := range names {
					if m.Matches(name) && name != "" {
						found++
						checkLabels(t, q, selector.LabelMatchers, name, names[name])
					}
				}
				if m.Value != "up" && found == 0 { // up is made by Prometheus
					t.Errorf("%s: the program does not export %s", q.where, m.Value)
				}
				for name := range strings.SplitSeq(strings.NewReplacer("uniflow_(source|sink)_connects_total", "uniflow_source_connects_total uniflow_sink_connects_total").Replace(m.Value), " ") {
					if name = strings.TrimSuffix(name, "_bucket"); strings.HasPrefix(name, "uniflow_") && !strings.Contains(docs, name) {
						t.Errorf("%s: the docs do not have %s", q.where, name)
					}
				}
			}
			return nil
		})
	}
}

func checkLabels(t *testing.T, q query, matchers []*labels.Matcher, name string, has map[string]bool) {
	t.Helper()
	for _, m := range matchers {
		if m.Name != model.MetricNameLabel && !has[m.Name] {
			t.Errorf("%s: %s has no label %s", q.where, name, m.Name)
		}
	}
}
