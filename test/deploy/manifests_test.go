package deploy

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// manifests are the documents of kubernetes.yaml.
type manifests struct {
	flows      core.ConfigMap
	service    core.Service
	budget     policy.PodDisruptionBudget
	deployment apps.Deployment
	pod        core.PodSpec
}

// decode reads kubernetes.yaml with the types of Kubernetes; a field that they do not have is an
// error.
func decode(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{}
	into := []any{&m.flows, &m.service, &m.budget, &m.deployment}
	kinds := []string{"v1 ConfigMap", "v1 Service", "policy/v1 PodDisruptionBudget", "apps/v1 Deployment"}
	docs := bytes.Split(read(t, "kubernetes.yaml"), []byte("\n---\n"))
	if len(docs) != len(into) {
		t.Fatalf("got %d documents, want %d", len(docs), len(into))
	}
	for i, doc := range docs {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		if got := head.APIVersion + " " + head.Kind; got != kinds[i] {
			t.Fatalf("document %d: got %s, want %s", i, got, kinds[i])
		}
		if err := yaml.UnmarshalStrict(doc, into[i]); err != nil {
			t.Fatalf("%s: %v", kinds[i], err)
		}
	}
	m.pod = m.deployment.Spec.Template.Spec
	if len(m.pod.Containers) != 1 {
		t.Fatalf("got %d containers, want 1", len(m.pod.Containers))
	}
	return m
}

// variable returns a variable of the environment of the container.
func variable(t *testing.T, pod core.PodSpec, name string) string {
	t.Helper()
	for _, v := range pod.Containers[0].Env {
		if v.Name == name {
			return v.Value
		}
	}
	t.Fatalf("there is no variable %s", name)
	return ""
}

// TestKubernetes follows the names from one manifest to the other.
func TestKubernetes(t *testing.T) {
	m := decode(t)
	labels := m.deployment.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{
		"the service": m.service.Spec.Selector, "the budget": m.budget.Spec.Selector.MatchLabels, "the deployment": m.deployment.Spec.Selector.MatchLabels,
	} {
		for key, v := range selector {
			if labels[key] != v || len(selector) == 0 {
				t.Errorf("%s selects %v, the pods have %v", what, selector, labels)
			}
		}
	}
	c := m.pod.Containers[0]
	if port := m.service.Spec.Ports[0].TargetPort.StrVal; !slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == port }) {
		t.Errorf("the service sends to port %q, which the container does not have", port)
	}
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(m.pod.Volumes, func(v core.Volume) bool { return v.Name == mount.Name })
		if i < 0 {
			t.Errorf("there is no volume %q", mount.Name)
		} else if from := m.pod.Volumes[i].ConfigMap; from != nil && from.Name != m.flows.Name {
			t.Errorf("volume %q is of the map %q, want %q", mount.Name, from.Name, m.flows.Name)
		}
	}
	if !slices.ContainsFunc(c.VolumeMounts, func(v core.VolumeMount) bool { return v.MountPath == c.Args[1] }) {
		t.Errorf("%q is not mounted", c.Args[1])
	}
	health := newImageHealth(t)
	for what, probe := range map[string]*core.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if probe == nil || probe.Exec == nil {
			t.Fatalf("there is no %s probe that runs a command", what)
		}
		want := slices.Clone(health)
		if what != "readiness" { // a program that waits for a database must not be killed
			want = append(want, "--alive")
		}
		if !slices.Equal(probe.Exec.Command, want) {
			t.Errorf("the %s probe runs %q, want %q", what, probe.Exec.Command, want)
		}
		if probe.TimeoutSeconds < 5 {
			t.Errorf("the %s probe waits for %d s, want as long as uniflow ready, 5 s", what, probe.TimeoutSeconds)
		}
	}
	if id := *m.pod.SecurityContext.RunAsUser; id != 65532 {
		t.Errorf("got user %d, want that of the image", id)
	}
	memory := c.Resources.Limits.Memory()
	if request := c.Resources.Requests.Memory(); memory.IsZero() || memory.Cmp(*request) != 0 {
		t.Errorf("got a limit of %s and a request of %s of memory, want one: a pod that takes more than it asked for is evicted first", memory, request)
	}
}

// newImageHealth returns the command of the health check of the image.
func newImageHealth(t *testing.T) (words []string) {
	t.Helper()
	_, text, _ := strings.Cut(field(t, read(t, "Dockerfile"), "HEALTHCHECK"), "CMD ")
	if err := yaml.Unmarshal([]byte(text), &words); err != nil {
		t.Fatal(err)
	}
	return words
}

// TestCompose has compose load the project, and looks for the files that it names.
func TestCompose(t *testing.T) {
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: folder, ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: read(t, "compose.yaml")}},
		Environment: types.Mapping{"UNIFLOW_ADMIN_TOKEN": "abc"},
	}, func(o *loader.Options) { o.SetProjectName("uniflow", true) })
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		for _, c := range s.Configs {
			if _, ok := project.Configs[c.Source]; !ok {
				t.Errorf("%s: there is no config %q", name, c.Source)
			}
		}
	}
	if b := project.Services["uniflow"].Build; b == nil || !strings.HasSuffix(b.Dockerfile, "deploy/Dockerfile") {
		t.Errorf("got %+v, want the Dockerfile", b)
	}
}
