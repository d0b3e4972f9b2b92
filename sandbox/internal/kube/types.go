package kube

import (
	"time"
)

// PodsPath is where a namespace's pods are.
func PodsPath(namespace string) string {
	return "/api/v1/namespaces/" + namespace + "/pods"
}

// PodPath is where a pod is.
func PodPath(namespace, name string) string {
	return PodsPath(namespace) + "/" + name
}

// LeasesPath is where a namespace's leases are.
func LeasesPath(namespace string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
}

// LeasePath is where a lease is.
func LeasePath(namespace, name string) string {
	return LeasesPath(namespace) + "/" + name
}

// Meta is what every object has.
type Meta struct {
	Name              string            `json:"name,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// Pod is a pod.
type Pod struct {
	APIVersion string     `json:"apiVersion,omitempty"`
	Kind       string     `json:"kind,omitempty"`
	Metadata   Meta       `json:"metadata"`
	Spec       PodSpec    `json:"spec"`
	Status     *PodStatus `json:"status,omitempty"`
}

// PodSpec is what a pod is to be.
type PodSpec struct {
	InitContainers                []Container       `json:"initContainers,omitempty"`
	Containers                    []Container       `json:"containers"`
	Volumes                       []Volume          `json:"volumes,omitempty"`
	RestartPolicy                 string            `json:"restartPolicy"`
	TerminationGracePeriodSeconds *int64            `json:"terminationGracePeriodSeconds,omitempty"`
	ActiveDeadlineSeconds         *int64            `json:"activeDeadlineSeconds,omitempty"`
	AutomountServiceAccountToken  *bool             `json:"automountServiceAccountToken,omitempty"`
	EnableServiceLinks            *bool             `json:"enableServiceLinks,omitempty"`
	HostUsers                     *bool             `json:"hostUsers,omitempty"`
	DNSPolicy                     string            `json:"dnsPolicy,omitempty"`
	DNSConfig                     *DNSConfig        `json:"dnsConfig,omitempty"`
	SecurityContext               *PodSecurity      `json:"securityContext,omitempty"`
	RuntimeClassName              string            `json:"runtimeClassName,omitempty"`
	NodeName                      string            `json:"nodeName,omitempty"`
	NodeSelector                  map[string]string `json:"nodeSelector,omitempty"`
	Tolerations                   []Toleration      `json:"tolerations,omitempty"`
	PriorityClassName             string            `json:"priorityClassName,omitempty"`
	ImagePullSecrets              []Name            `json:"imagePullSecrets,omitempty"`
	TopologySpreadConstraints     []Spread          `json:"topologySpreadConstraints,omitempty"`
	ReadinessGates                []ReadinessGate   `json:"readinessGates,omitempty"` // belljar asks for none
}

// ReadinessGate names a condition without which a pod is not ready.
type ReadinessGate struct {
	ConditionType string `json:"conditionType"`
}

// Spread says how evenly pods are spread over nodes.
type Spread struct {
	MaxSkew           int           `json:"maxSkew"`
	TopologyKey       string        `json:"topologyKey"`
	WhenUnsatisfiable string        `json:"whenUnsatisfiable"`
	LabelSelector     LabelSelector `json:"labelSelector"`
}

// LabelSelector selects pods that have all the labels.
type LabelSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// Name is an object's.
type Name struct {
	Name string `json:"name"`
}

// DNSConfig is what /etc/resolv.conf has.
type DNSConfig struct {
	Nameservers []string `json:"nameservers,omitempty"`
}

// Toleration is of a node's taint.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

// PodSecurity is the securityContext of a pod.
type PodSecurity struct {
	RunAsNonRoot        *bool    `json:"runAsNonRoot,omitempty"`
	RunAsUser           *int64   `json:"runAsUser,omitempty"`
	RunAsGroup          *int64   `json:"runAsGroup,omitempty"`
	FSGroup             *int64   `json:"fsGroup,omitempty"`
	FSGroupChangePolicy string   `json:"fsGroupChangePolicy,omitempty"`
	SeccompProfile      *Seccomp `json:"seccompProfile,omitempty"`
}

// Seccomp is a profile: RuntimeDefault, or Localhost with a file of the node.
type Seccomp struct {
	Type             string `json:"type"`
	LocalhostProfile string `json:"localhostProfile,omitempty"`
}

// Container is a container of a pod.
type Container struct {
	Name                   string             `json:"name"`
	Image                  string             `json:"image"`
	ImagePullPolicy        string             `json:"imagePullPolicy,omitempty"`
	Command                []string           `json:"command,omitempty"`
	Args                   []string           `json:"args,omitempty"`
	WorkingDir             string             `json:"workingDir,omitempty"`
	Stdin                  bool               `json:"stdin,omitempty"`
	StdinOnce              bool               `json:"stdinOnce,omitempty"`
	Resources              *Resources         `json:"resources,omitempty"`
	VolumeMounts           []VolumeMount      `json:"volumeMounts,omitempty"`
	SecurityContext        *ContainerSecurity `json:"securityContext,omitempty"`
	TerminationMessagePath string             `json:"terminationMessagePath,omitempty"`
}

// Resources are quantities, by the resource's name.
type Resources struct {
	Limits   map[string]string `json:"limits,omitempty"`
	Requests map[string]string `json:"requests,omitempty"`
}

// VolumeMount is a volume in a container.
type VolumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	SubPath   string `json:"subPath,omitempty"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// Volume is an empty directory or that of a claim.
type Volume struct {
	Name                  string    `json:"name"`
	EmptyDir              *EmptyDir `json:"emptyDir,omitempty"`
	PersistentVolumeClaim *Claim    `json:"persistentVolumeClaim,omitempty"`
}

// Claim is a PersistentVolumeClaim of the pod's namespace.
type Claim struct {
	ClaimName string `json:"claimName"`
	ReadOnly  bool   `json:"readOnly,omitempty"` // whatever its mounts say
}

// EmptyDir is a directory that lives as long as its pod.
type EmptyDir struct {
	Medium    string `json:"medium,omitempty"` // Memory, or "" for the node's disk
	SizeLimit string `json:"sizeLimit,omitempty"`
}

// ContainerSecurity is the securityContext of a container.
type ContainerSecurity struct {
	AllowPrivilegeEscalation *bool         `json:"allowPrivilegeEscalation,omitempty"`
	Privileged               *bool         `json:"privileged,omitempty"`
	ReadOnlyRootFilesystem   *bool         `json:"readOnlyRootFilesystem,omitempty"`
	Capabilities             *Capabilities `json:"capabilities,omitempty"`
}

// Capabilities are those that a container loses.
type Capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// PodStatus is what became of a pod.
type PodStatus struct {
	Phase                 string            `json:"phase,omitempty"`
	Reason                string            `json:"reason,omitempty"`
	Message               string            `json:"message,omitempty"`
	Conditions            []Condition       `json:"conditions,omitempty"`
	InitContainerStatuses []ContainerStatus `json:"initContainerStatuses,omitempty"`
	ContainerStatuses     []ContainerStatus `json:"containerStatuses,omitempty"`
}

// Condition is one of a pod's.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ContainerStatus is what became of a container.
type ContainerStatus struct {
	Name        string         `json:"name"`
	ImageID     string         `json:"imageID,omitempty"`
	ContainerID string         `json:"containerID,omitempty"`
	State       ContainerState `json:"state"`
}

// ContainerState has one field that is not nil.
type ContainerState struct {
	Waiting    *Waiting    `json:"waiting,omitempty"`
	Running    *struct{}   `json:"running,omitempty"`
	Terminated *Terminated `json:"terminated,omitempty"`
}

// Waiting is why a container does not run yet.
type Waiting struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Terminated is how a container ended. The message of one in which commands ran may be theirs.
type Terminated struct {
	ExitCode   int        `json:"exitCode"`
	Signal     int        `json:"signal,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
}

// Lease is a lease.
type Lease struct {
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Metadata   Meta      `json:"metadata"`
	Spec       LeaseSpec `json:"spec"`
}

// LeaseSpec is who holds a lease, and until when.
type LeaseSpec struct {
	HolderIdentity       string `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds int    `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          string `json:"acquireTime,omitempty"`
	RenewTime            string `json:"renewTime,omitempty"`
}

// microTime is the form of a lease's times.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// MicroTime is a time as a lease has it.
func MicroTime(t time.Time) string { return t.UTC().Format(microTime) }

// Renewed is when it was.
func (s LeaseSpec) Renewed() (time.Time, error) { return time.Parse(microTime, s.RenewTime) }

// Ended reports whether a lease was not renewed in time.
func (l *Lease) Ended(now time.Time) bool {
	renewed, err := l.Spec.Renewed()
	return err != nil || now.After(renewed.Add(time.Duration(l.Spec.LeaseDurationSeconds)*time.Second))
}
