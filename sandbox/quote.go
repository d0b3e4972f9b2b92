package sandbox

import "strconv"

// quoteName makes a name from outside safe to stand in a message.
func quoteName(name string) string { return strconv.QuoteToASCII(name) }
