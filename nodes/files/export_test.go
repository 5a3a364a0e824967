package files

// ForgetStdin forgets what a node has left of the standard input.
func ForgetStdin() {
	inputLeft.Lock()
	defer inputLeft.Unlock()
	inputLeft.at, inputLeft.bytes, inputLeft.columns = position{}, nil, nil
}
