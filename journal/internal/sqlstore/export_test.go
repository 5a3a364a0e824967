package sqlstore

// ReadSteps is for tests of steps of their own.
var ReadSteps = readSteps
