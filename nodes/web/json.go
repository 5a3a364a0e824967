package web

import "github.com/uniflow-labs/uniflow/value"

func parseJSON(data []byte) (value.Value, error) { return value.ParseJSON(data) }

func appendJSON(dst []byte, v value.Value) ([]byte, error) { return v.AppendJSON(dst) }
