// Package openapi describes the requests that a workflow serves, as documents of OpenAPI
// 3.1. What a kind adds is its [node.Def.OpenAPI]; the routes are those of the kind
// router. The package must not know other kinds.
package openapi
