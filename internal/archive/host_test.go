package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed are the files below a directory, with their content.
func listed(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		short, _ := filepath.Rel(dir, name)
		switch {
		case d.IsDir():
			short += "/"
		case d.Type() == os.ModeSymlink:
			to, _ := os.Readlink(name)
			short += "@" + to
		default:
			text, _ := os.ReadFile(name)
			short += "=" + string(text)
		}
		list = append(list, short)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func write(t *testing.T, files ...string) {
	t.Helper()
	for _, name := range files {
		at, to, isLink := strings.Cut(name, "@")
		at, text, isFile := strings.Cut(at, "=")
		os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case isLink:
			os.Symlink(to, at)
		case isFile:
			os.WriteFile(at, []byte(text), 0o600)
		default:
			os.Mkdir(at, 0o755)
		}
	}
}

func TestExtract(t *testing.T) {
	dir := []tar.Header{{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o7700}, {Name: "d/f", Size: 1, Mode: 0o4644}, {Name: "d/e/", Typeflag: tar.TypeDir}, {Name: "d/e/g", Size: 2}}
	content := []tar.Header{{Name: "./", Typeflag: tar.TypeDir, Mode: 0o700}, {Name: "./f", Size: 1, Mode: 0o600}}
	one := []tar.Header{{Name: "f", Size: 1, Mode: 0o600}}
	for name, test := range map[string]struct {
		has     string
		to, top string
		sends   []tar.Header
		want    string // what is there then
		says    string // an error
	}{
		"a file":                    {"", "new", "f", one, "new=x", ""},
		"a file into a directory":   {"old", "old", "f", one, "old/ old/f=x", ""},
		"a file over a file":        {"old=o", "old", "f", one, "old=x", ""},
		"a file in no directory":    {"", "new/", "f", one, "", "is not a directory that exists"},
		"a file below none":         {"", "a/b", "f", one, "", "no such file"},
		"a directory":               {"", "new", "d", dir, "new/ new/e/ new/e/g=xx new/f=x", ""},
		"a directory into one":      {"old old/f=o", "old", "d", dir, "old/ old/d/ old/d/e/ old/d/e/g=xx old/d/f=x old/f=o", ""},
		"a directory over a file":   {"old=o", "old", "d", dir, "old=o", "is not a directory"},
		"over its older self":       {"old old/d old/d/f=o old/d/z=o", "old", "d", dir, "old/ old/d/ old/d/e/ old/d/e/g=xx old/d/f=x old/d/z=o", ""},
		"its content":               {"old old/f=o old/z=o", "old", ".", content, "old/ old/f=x old/z=o", ""},
		"its content, new":          {"", "new", ".", content, "new/ new/f=x", ""},
		"a link in the way":         {"out old old/d@../out", "old", "d", dir, "old/ old/d@../out out/", `"d" is in the way`},
		"a link deeper":             {"out old old/d old/d/e@../../out old/d/f=o", "old", "d", dir, "old/ old/d/ old/d/e@../../out old/d/f=o out/", `"d/e" is in the way`},
		"a file's link in the way":  {"out=o old old/f@../out", "old", "f", one, "old/ old/f@../out out=o", `"f" is in the way`},
		"the destination is a link": {"real=o old@real", "old", "f", one, "old@real real=x", ""},
		"a directory in the way":    {"old old/f", "old", "f", one, "old/ old/f/", `"f" is in the way`},
		"another name":              {"", "new", "f", dir, "", `"d" was not asked for`},
		"nothing":                   {"", "new", "f", nil, "", "no such file"},
		"a file as a directory":     {"", "new", "d", []tar.Header{{Name: "d", Size: 1}, {Name: "d/f", Size: 1}}, "", "file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, strings.Fields(test.has)...)
			err := Extract(t.Context(), test.to, test.top, func(to io.Writer) error {
				_, err := to.Write(made(t, test.sends...).Bytes())
				return err
			})
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v", err)
			}
			if got := listed(t, "."); got != test.want {
				t.Errorf("there is %s", got)
			}
			filepath.WalkDir(".", func(name string, d os.DirEntry, _ error) error {
				if about, err := d.Info(); err == nil && about.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky) != 0 {
					t.Errorf("%s has mode %v", name, about.Mode())
				}
				return nil
			})
		})
	}
}

// What did not arrive whole leaves nothing.
func TestExtractFails(t *testing.T) {
	whole := made(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/f", Size: 5000}).Bytes()
	broken := errors.New("the session ended")
	for name, fill := range map[string]func(io.Writer) error{
		"cut":              func(w io.Writer) error { w.Write(whole[:2000]); return nil },
		"a late failure":   func(w io.Writer) error { w.Write(whole); return broken },
		"an early failure": func(io.Writer) error { return broken },
		"a link at last": func(w io.Writer) error {
			_, err := w.Write(made(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "/"}).Bytes())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "d/f=old")
			if err := Extract(t.Context(), ".", "d", fill); err == nil {
				t.Error("no error")
			}
			if got := listed(t, "."); got != "d/ d/f=old" {
				t.Errorf("there is %s", got)
			}
		})
	}
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Extract(ctx, ".", "d", func(w io.Writer) error { _, err := w.Write(whole); return err }); !errors.Is(err, context.Canceled) || listed(t, ".") != "" {
		t.Errorf("%v; there is %s", err, listed(t, "."))
	}
}

func TestPack(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "d/f=text", "d/e/g=x", "other/l@/etc/passwd")
	root, err := os.OpenRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	names := func(name, top string) (list []string, err error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := Pack(t.Context(), w, root, name, top); err != nil {
			return nil, err
		}
		w.Close()
		for r := tar.NewReader(&b); ; {
			h, err := r.Next()
			if err != nil {
				return list, nil
			}
			text, _ := io.ReadAll(r)
			list = append(list, h.Name+"="+string(text))
		}
	}
	for _, test := range []struct{ name, top, want string }{
		{"d", "new", "[new/= new/e/= new/e/g=x new/f=text]"},
		{"d", ".", "[./= e/= e/g=x f=text]"},
		{"d/f", "g", "[g=text]"},
	} {
		if got, err := names(test.name, test.top); fmt.Sprint(got) != test.want || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err := names("other", "x"); !strings.Contains(fmt.Sprint(err), `"other/l" is a link or a special file`) {
		t.Error(err)
	}
}
