// Package s3 has the kinds whose nodes read and write objects of S3.
package s3

import (
	_ "github.com/minio/minio-go/v7"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return nil
}
