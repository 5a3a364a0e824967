// Package spec reads and writes workflow documents: it turns YAML or JSON into
// nodes with the place of every field, binds env and renders templates, accepts
// the older form, and formats.
//
// Read [Document] and [Node] first, then [Parse], [ParseVariables], [Resolve] and
// [Format], which a document goes through in this order.
//
// Invariants: parsing never panics and its work is bounded, whatever the bytes;
// every finding has a place; nothing in a document is skipped in silence; no
// finding shows what a variable holds.
//
// The package must not know which kinds of node exist, languages, or how
// workflows run.
package spec

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// MaxSize is how large a document may be, in bytes.
const MaxSize = yamltree.MaxSize

// A Document is the text of a file.
type Document struct {
	File string // as given by the user, or "<stdin>"
	Data []byte
}

// A Node is one node of a workflow, as its author wrote it. It is plain data.
type Node struct {
	ID          string // a UUID; derived from the place in the document if the author gave none
	Kind        string // in today's form
	Namespace   string
	Name        string // empty if the author gave none
	Annotations []Annotation
	Env         []Binding
	Ports       []Port
	Config      *schema.Raw // the fields of the kind's own: a map, never nil

	Pos     diag.Pos // where the node begins
	Pointer string   // the same as a JSON Pointer into its document

	// IDPos is the place of the id, zero if the author gave none: the id is then
	// derived from the name.
	IDPos diag.Pos

	// The places of the values of other common fields, Pos where the author left
	// one out.
	KindPos, NamespacePos, NamePos, AnnotationsPos, EnvPos, PortsPos diag.Pos

	// Deprecation lists what was written in the older form.
	Older []Deprecation
}

// A Deprecation is one use of the older form of a spec.
type Deprecation struct {
	Pos  diag.Pos
	Path string // the field within the node, such as "links"
	Want string // how it is written today, such as "ports"
}

// An Annotation is a note that means nothing to the engine.
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

// A Link names the in-port of another node. Either ID or Name is set.
type Link struct {
	ID, Name string
	Port     string   // "in" if the author gave none
	Pos      diag.Pos // of the entry
	NamePos  diag.Pos // of the id or name
	PortPos  diag.Pos // of the port, or of the entry
}

// A Binding is one entry of env: a name for templates, and where its data comes
// from.
type Binding struct {
	Key  string
	Pos  diag.Pos // of the key
	ID   string   // of a variable; may be empty
	Name string   // of a variable; may be empty
	// NamePos is the place of the id or name, or of the key.
	NamePos diag.Pos
	// Data is a tree of strings that may be templates over the variable or the
	// environment. If nil, the data of the variable is taken as it is, or the
	// environment's value of Key.
	Data *schema.Raw
}

// A Variable is named data that env entries refer to.
type Variable struct {
	ID          string
	Namespace   string // empty if the author gave none: it is seen from all namespaces
	Name        string
	Annotations []Annotation
	Data        value.Value // secret: not to be shown in any message
	Pos         diag.Pos
}

// ParseOptions say how to read a document. The zero ParseOptions are ready for
// use.
type ParseOptions struct {
	Namespace string // of specs that name none; "default" if empty
}

func (o ParseOptions) namespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// title is what findings call the node: its name, or its kind.
func (n *Node) title() string {
	if n.Name != "" {
		return n.Name
	}
	return n.Kind
}
