// Package spec reads and writes workflow documents: it parses YAML or JSON into nodes
// with the place of every field, binds env and renders templates, accepts the older
// form, and formats.
//
// Read [Document] and [Node] first, then [Parse], [ParseVariables], [Resolve] and
// [Format].
//
// Invariants: parsing never panics, and its work is bounded, for any input; every
// finding has a place; nothing in a document is ignored silently; no finding shows
// the value of a variable.
//
// The package must not know languages, how workflows run, or kinds of nodes, except for
// the older form (legacy.go) and for [KindFile].
package spec

import (
	"path/filepath"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// KindFile is the name of documents that declare a kind each: a spec in one that names no kind is a plugin.
const KindFile = "kind.yaml"

// MaxSize is the largest size of a document, in bytes.
const MaxSize = yamltree.MaxSize

// A Document is the text of a file.
type Document struct {
	File string // as given by the user, or [Stdin]
	Data []byte

	// Variable is the name of the variable whose data Data is, as a whole, such as a
	// mounted file. It is empty for YAML and JSON.
	Variable string

	// References are what the references in a values file lead to, by their text; see
	// [ReadValues].
	References map[string]Reference
}

// A Node is one node of a workflow, as its author wrote it. It is plain data.
type Node struct {
	ID          string // a UUID; derived from the place in the document if the author gave none
	Kind        string // the current name
	Namespace   string
	Name        string // empty if the author gave none
	Annotations []Annotation
	Env         []Binding
	Ports       []Port

	// LifecycleTimeout bounds each workflow at a lifecycle port; 0 for the default.
	LifecycleTimeout time.Duration

	Config *schema.Raw // the kind's own fields: a map, never nil

	// Outer is the sub-graph that the node is part of; nil for a node of a document.
	Outer *Node

	// Boundary is set for a sub-graph.
	Boundary *Boundary

	// Unrendered says that Config has a template without a result, or is that of a [KindFile] that cannot be read.
	// It was reported.
	Unrendered bool

	// UsedAt is where the template is used that a node is made of; zero for others.
	UsedAt diag.Pos

	Pos     diag.Pos // where the node begins
	Pointer string   // the same as a JSON Pointer into its document

	// IDPos is the place of the id. It is zero if the author gave none; the id is
	// then derived from the name.
	IDPos diag.Pos

	// The places of the values of other common fields; Pos for a field that the
	// author left out.
	KindPos, NamespacePos, NamePos, AnnotationsPos, EnvPos, PortsPos diag.Pos

	// Older lists what is written in the older form.
	Older []Deprecation
}

// A Boundary is the ports of a sub-graph. In has links to nodes of the sub-graph; those
// nodes link to the ports of Out themselves, see [Link.Exit].
type Boundary struct {
	In  []Port
	Out []string // "error" last, if there is a link to it
}

// Path is the name of the node after the names of the sub-graphs around it, such as
// "outer/inner". It is empty for a node of a document without a name.
func (n *Node) Path() string {
	if n.Outer == nil {
		return n.Name
	}
	return n.Outer.title() + "/" + n.Name
}

// A Deprecation is one use of the older form of a spec.
type Deprecation struct {
	Pos  diag.Pos
	Path string // the field within the node, such as "links"
	Want string // the current form, such as "ports"
}

// An Annotation is a note that the engine ignores.
type Annotation struct {
	Name  string
	Value value.Value
	Pos   diag.Pos
}

// A Port is an out-port with links.
type Port struct {
	Name  string // as written, such as "out[0]"
	Pos   diag.Pos
	Links []Link
}

// A Link names the in-port of another node. ID, Name or Exit is set.
type Link struct {
	ID, Name string
	Exit     bool     // the packet leaves the sub-graph, by the out-port Port of that
	Port     string   // "in" if the author gave none
	Pos      diag.Pos // of the entry
	NamePos  diag.Pos // of the id or name
	PortPos  diag.Pos // of the port, or of the entry
}

// A Binding is one entry of env: a key for templates, and the source of its data.
type Binding struct {
	Key  string
	Pos  diag.Pos // of the key
	ID   string   // of a variable; may be empty
	Name string   // of a variable; may be empty
	// NamePos is the place of the id or name, or of the key.
	NamePos diag.Pos
	// Data is a tree of strings, which may be templates over the variable or the
	// environment. If it is nil, the variable has the data, or it is the value of Key
	// in the environment.
	Data *schema.Raw
}

// A Variable is named data that env entries refer to.
type Variable struct {
	ID          string
	Namespace   string // empty if the author gave none: nodes of all namespaces can use it
	Name        string
	Annotations []Annotation
	Data        value.Value // no finding shows it
	Secret      bool        // no output shows it
	Pos         diag.Pos

	referred []string // texts in Data that references led to, unless they are not secret
}

// ParseOptions say how to read a document. The zero ParseOptions are ready for
// use.
type ParseOptions struct {
	Namespace string // of specs without one; "default" if empty
}

func (o ParseOptions) namespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// CommonFields returns the names of the fields that specs of all kinds have, in the
// order in which Format writes them.
func CommonFields() []string {
	return []string{"kind", "namespace", "name", "id", "annotations", "env", "lifecycle", "ports"}
}

// Declares returns the name of the kind that the node declares, if it declares one. One without a name in a [KindFile]
// has that of the folder: what is wrong with it is one finding, and its nodes are not of an unknown kind.
func (n *Node) Declares() string {
	if n.Name == "" && filepath.Base(n.Pos.File) == KindFile {
		return filepath.Base(filepath.Dir(n.Pos.File))
	}
	return n.Name
}

// title returns the node's path for findings, or its kind.
func (n *Node) title() string {
	if path := n.Path(); path != "" {
		return path
	}
	return n.Kind
}
