package proptest

import (
	"flag"
	"os"
	"testing"
)

// TestMain plays more scripts than rapid would by default, as they are quick.
func TestMain(m *testing.M) {
	if os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
