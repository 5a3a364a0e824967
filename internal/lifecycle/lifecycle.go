// Package lifecycle lists the phases of a node's life at which a workflow may run.
// Every node has an out-port for each. It has no logic of its own.
//
// The package must not know nodes.
package lifecycle

// A Phase is a moment in the life of a node.
type Phase uint8

// The phases, in the order in which they come.
const (
	Init Phase = iota
	Active
	Deactive
	Deinit

	Phases = iota // how many there are
)

// A Port is the out-port of a phase.
type Port struct{ Name, Doc string }

var ports = [Phases]Port{
	Init:     {"init", "Run before the node opens."},
	Active:   {"active", "Run after the node has opened."},
	Deactive: {"deactive", "Run before the node closes."},
	Deinit:   {"deinit", "Run after the node has closed."},
}

func (p Phase) String() string { return ports[p].Name }

// Ports returns the lifecycle ports, by phase.
func Ports() [Phases]Port { return ports }

// Of returns the phase of the out-port of that name.
func Of(name string) (phase Phase, ok bool) {
	for i, port := range ports {
		if port.Name == name {
			return Phase(i), true
		}
	}
	return 0, false
}

// Names returns the names of the ports, by phase.
func Names() []string {
	names := make([]string, Phases)
	for i, port := range ports {
		names[i] = port.Name
	}
	return names
}
