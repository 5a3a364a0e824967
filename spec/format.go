package spec

import "github.com/uniflow-labs/uniflow/diag"

func Format(doc Document) ([]byte, diag.List) { return nil, nil }
