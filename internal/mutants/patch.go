package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// patch describes a mutant: a unified diff, as git apply takes it from the root
// of the repository, below a line that names the invariant it breaks and says
// how.
type patch struct {
	file  string
	name  string // the file's, without directory and extension
	title string
	files []string // what it changes, from the root of the module
}

var changed = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)

func readPatches(files []string) ([]patch, error) {
	var patches []patch
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p := patch{name: strings.TrimSuffix(filepath.Base(file), ".patch")}
		p.title, _, _ = strings.Cut(string(text), "\n")
		if p.file, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		for _, match := range changed.FindAllStringSubmatch(string(text), -1) {
			p.files = append(p.files, match[1])
		}
		if len(p.files) == 0 {
			return nil, fmt.Errorf("%s changes no file", file)
		}
		patches = append(patches, p)
	}
	if len(patches) == 0 {
		return nil, fmt.Errorf("there are no patches")
	}
	return patches, nil
}

// apply makes changed copies in dir of the files below root, and returns the
// name of a file there that tells go test to compile those instead.
func (p patch) apply(ctx context.Context, root, dir string) (overlay string, err error) {
	original := map[string][]byte{}
	replace := map[string]string{}
	for _, file := range p.files {
		from, to := filepath.Join(root, file), filepath.Join(dir, file)
		if original[to], err = os.ReadFile(from); err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, original[to], 0o666); err != nil {
			return "", err
		}
		replace[from] = to
	}
	cmd := exec.CommandContext(ctx, "git", "apply", p.file)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), // within a repository, it skips what is not in that, and says nothing
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the patch does not apply: %s", bytes.TrimSpace(out))
	}
	for to, before := range original {
		if after, err := os.ReadFile(to); err != nil || bytes.Equal(before, after) {
			return "", fmt.Errorf("the patch leaves %s as it was (%v)", filepath.Base(to), err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o666)
}
