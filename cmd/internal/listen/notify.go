package listen

import "github.com/coreos/go-systemd/v22/daemon"

// Ready tells the service manager that the server answers. Without one, as Stopping and
// Reloading, it does nothing.
func Ready() error { return notify(daemon.SdNotifyReady) }

// Stopping tells it that the server is about to end.
func Stopping() error { return notify(daemon.SdNotifyStopping) }

// Reloading tells it that the server reads its files again, until Ready. The time lets
// it tell this from an earlier one (systemd.service(5), notify-reload).
func Reloading() error {
	return notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

func notify(state string) error {
	_, err := daemon.SdNotify(false, state)
	return err
}
