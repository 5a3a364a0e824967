//go:build !unix

package external_test

import "errors"

var errOfUnix = errors.New("only Unix has this")

func ignoreSignals() {}

func escape() (any, error) { return nil, errOfUnix }

func killOther(string) (any, error) { return nil, errOfUnix }
