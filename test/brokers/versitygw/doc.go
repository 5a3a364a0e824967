// Package versitygw pins the server of S3 that tests start. It is a module of its own, as it has far
// more requirements than all the other servers together.
package versitygw
