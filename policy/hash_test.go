package policy

import (
	"fmt"
	"reflect"
	"testing"

	"belljar/sandbox"
)

// hashed is rules with a value in every field; change changes each in turn.
func hashed() (Rules, CommandRules) {
	return Rules{
			Env: []string{"A", "B"}, Mounts: []MountRule{{Source: "/a", Target: "/b", Mode: ReadOnly}},
			Written: []string{"/w"}, Protected: []string{"/p"}, Fixed: []string{"/f"},
		}, CommandRules{
			Default: Ask, Shell: ShellBash, Writes: []string{"w"}, Env: []string{"E"},
			Rules: []CommandRule{{
				Name: "r", Commands: []string{"ls"}, Args: []string{"a"}, Deny: []string{"-d"}, Decision: Ask, Reason: "because",
				Allow: []string{Runs}, Writes: []string{"x"}, Env: []string{"F"},
				Grant: Grant{Timeout: 1e9, IdleTimeout: 1e9, Limits: sandbox.Limits{Memory: 7 << 20, CPUs: 1, Pids: 5, Output: 2048, Tmp: 1 << 20, Files: 99}, Network: "none", Mounts: "ro", Secrets: []string{"S"}},
			}},
		}
}

func (r Rules) with(commands CommandRules) Rules {
	hash, err := hashJSON(commands)
	if err != nil {
		panic(err)
	}
	r.Commands = &CommandPolicy{hash: hash}
	return r
}

// The hash covers everything in the rules, including fields added later.
func TestHashHoldsEveryField(t *testing.T) {
	rules, commands := hashed()
	seen := map[string]string{rules.with(commands).Hash(): "what it was"}
	look := func(what string, r Rules) {
		hash := r.Hash()
		if before, isSeen := seen[hash]; isSeen {
			t.Errorf("%s changed: the hash is still that of %s", what, before)
		}
		seen[hash] = what
	}
	changes := 0
	for _, part := range []any{&rules, &commands} {
		eachField(reflect.ValueOf(part).Elem(), reflect.TypeOf(part).Elem().Name(), func(what string) {
			if what == "Rules.Protected[0]" || what == "Rules.Fixed[0]" {
				return // the location of belljar's own files, which differs between users
			}
			changes++
			look(what, rules.with(commands))
		})
	}
	rules, commands = hashed()
	rules.Commands = nil
	look("no commands", rules)
	look("no rules", rules.with(CommandRules{}))
	if changes < 30 {
		t.Errorf("only %d fields were changed", changes)
	}
}

// eachField changes one value after the other, and restores it.
func eachField(v reflect.Value, name string, changed func(what string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), name+"."+v.Type().Field(i).Name, changed)
		}
		return
	case reflect.Slice:
		if v.Len() == 0 {
			panic(name + " is empty: give it a value in hashed")
		}
		for i := range v.Len() {
			eachField(v.Index(i), fmt.Sprintf("%s[%d]", name, i), changed)
		}
		return
	case reflect.Pointer:
		return // Rules.Commands, which is tested on its own
	}
	before := reflect.New(v.Type()).Elem()
	before.Set(v)
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Int64:
		v.SetInt(v.Int() + 1e6)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	default:
		panic(name + " is a " + v.Kind().String())
	}
	changed(name)
	v.Set(before)
}

// Equal rules have one hash, in each process and on each machine.
func TestHashIsStable(t *testing.T) {
	rules, commands := hashed()
	again, andAgain := hashed()
	if rules.with(commands).Hash() != again.with(andAgain).Hash() {
		t.Error("equal rules have different hashes")
	}
	again.Protected, again.Fixed = nil, nil
	if rules.with(commands).Hash() != again.with(andAgain).Hash() {
		t.Error("the hash depends on where belljar's own files are")
	}
	none, empty := Rules{}, Rules{Env: []string{}, Mounts: []MountRule{}}
	if none.with(CommandRules{}).Hash() != empty.with(CommandRules{Rules: []CommandRule{}, Env: []string{}}).Hash() {
		t.Error("nil and an empty list have different hashes")
	}
	rules.Written = nil // a field added later
	const want = "3adb448876d73d2d7a78c867e961b0da11589a0396002ba2f4b153f0acaeb8e7"
	if got := rules.with(commands).Hash(); got != want {
		t.Errorf("the hash of unchanged rules changed: %s", got)
	}
	set, _ := Bundled("build") // whose tables are maps
	other, _ := Bundled("build")
	if a, b := (Rules{Commands: compile(t, set)}).Hash(), (Rules{Commands: compile(t, other)}).Hash(); a != b || len(a) != 64 {
		t.Errorf("%s and %s", a, b)
	}
}
