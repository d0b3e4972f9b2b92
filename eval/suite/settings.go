package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"belljar/sandbox"

	"github.com/pelletier/go-toml/v2"
)

// settings are a task folder's task.toml, schema 1.0 to 1.4.
type settings struct {
	SchemaVersion string         `toml:"schema_version"`
	Version       string         `toml:"version"`
	Artifacts     []any          `toml:"artifacts"`
	Task          map[string]any `toml:"task"`
	Metadata      map[string]any `toml:"metadata"`
	Agent         agent          `toml:"agent"`
	Environment   environment    `toml:"environment"`
	Verifier      verifier       `toml:"verifier"`
	Solution      struct {
		Env map[string]string `toml:"env"`
	} `toml:"solution"`
	Strategy string `toml:"multi_step_reward_strategy"`
	OldMode  any    `toml:"multi_step_reward_mode"` // before 1.3; Harbor drops it, too
	Steps    []step `toml:"steps"`
}

type agent struct {
	TimeoutSec  float64 `toml:"timeout_sec"`
	User        any     `toml:"user"`
	NetworkMode string  `toml:"network_mode"`
	Hosts       []any   `toml:"allowed_hosts"`
}

type verifier struct {
	TimeoutSec      float64           `toml:"timeout_sec"`
	User            any               `toml:"user"`
	EnvironmentMode string            `toml:"environment_mode"`
	NetworkMode     string            `toml:"network_mode"`
	Hosts           []any             `toml:"allowed_hosts"`
	Env             map[string]string `toml:"env"`
	Environment     *environment      `toml:"environment"`
	Collect         []hook            `toml:"collect"`
}

type hook struct {
	Command    string  `toml:"command"`
	Service    string  `toml:"service"`
	TimeoutSec float64 `toml:"timeout_sec"`
}

// step is one of several. What it does not say is the task's.
type step struct {
	Name        string       `toml:"name"`
	Agent       agent        `toml:"agent"`
	Verifier    verifier     `toml:"verifier"`
	MinReward   any          `toml:"min_reward"` // a number, or numbers by the names of rewards
	Healthcheck *healthcheck `toml:"healthcheck"`
	Artifacts   []any        `toml:"artifacts"`
}

// healthcheck is a command that must succeed before the agent begins.
type healthcheck struct {
	Command       string  `toml:"command"`
	Interval      float64 `toml:"interval_sec"`
	Timeout       float64 `toml:"timeout_sec"`
	StartPeriod   float64 `toml:"start_period_sec"`
	StartInterval float64 `toml:"start_interval_sec"`
	Retries       int     `toml:"retries"`
}

type environment struct {
	DockerImage   string            `toml:"docker_image"`
	BuildTimeout  float64           `toml:"build_timeout_sec"`
	Workdir       string            `toml:"workdir"`
	CPUs          float64           `toml:"cpus"`
	MemoryMB      int64             `toml:"memory_mb"`
	StorageMB     int64             `toml:"storage_mb"`
	Memory        string            `toml:"memory"`
	Storage       string            `toml:"storage"`
	GPUs          int               `toml:"gpus"`
	OS            string            `toml:"os"`
	AllowInternet *bool             `toml:"allow_internet"`
	NetworkMode   string            `toml:"network_mode"`
	AllowedHosts  []string          `toml:"allowed_hosts"`
	Env           map[string]string `toml:"env"`
	Servers       []any             `toml:"mcp_servers"`
	TPU           any               `toml:"tpu"`
	GPUTypes      []any             `toml:"gpu_types"`  // of gpus
	Skills        string            `toml:"skills_dir"` // of agents that run in the container
	Healthcheck   *healthcheck      `toml:"healthcheck"`
}

var versions = []string{"", "1.0", "1.1", "1.2", "1.3", "1.4"}

// settings reads task.toml.
func (f *folder) settings() error {
	text := bytes.TrimPrefix(f.files[settingsFile].Content, []byte("\uFEFF"))
	if err := toml.Unmarshal(text, &f.set); err != nil {
		at := settingsFile
		if where, ok := errors.AsType[*toml.DecodeError](err); ok {
			if line, _ := where.Position(); line > 0 {
				of := strings.Split(string(text), "\n")
				at = fmt.Sprintf("line %d of %s, %.100q", line, at, strings.TrimSpace(of[min(line, len(of))-1]))
			}
		}
		return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "reading " + at, Err: err, Hint: "docs/evaluation.md says what it may have"}
	}
	var whole map[string]any
	if err := toml.Unmarshal(text, &whole); err != nil {
		return err
	}
	delete(whole, "metadata")
	if key := notFinite(whole); key != "" {
		return sandbox.Invalid("write a number", "%s of %s is not a finite number", key, settingsFile)
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	var again settings
	if missing, ok := errors.AsType[*toml.StrictMissingError](d.Decode(&again)); ok {
		for _, e := range missing.Errors {
			f.notice("%s: key %q is unknown and ignored", settingsFile, strings.Join(e.Key(), "."))
		}
	}
	if v := cmp.Or(f.set.SchemaVersion, f.set.Version); !slices.Contains(versions, v) {
		return sandbox.Invalid("use schema_version 1.0 to 1.4", "%s has schema_version %q", settingsFile, v)
	}
	return nil
}

// notFinite is the key of a number that is infinite or none, which TOML has, or "".
func notFinite(value any) string {
	switch v := value.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "."
		}
	case []any:
		for _, one := range v {
			if key := notFinite(one); key != "" {
				return key
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if key := notFinite(v[name]); key != "" {
				return strings.TrimRight(name+"."+strings.TrimLeft(key, "."), ".")
			}
		}
	}
	return ""
}

// assignments are variables as NAME=value.
func assignments(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
