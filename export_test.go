package uniflow

// Within is the wait of Shutdown and of the start of a generation.
var Within = within
