package peer;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/** Turns the command line into a connected Redisson. */
final class Connection {
    private Connection() {
    }

    static RedissonClient open(Options options) {
        if (options.yaml() != null) {
            return Redisson.create(fromFile(options.yaml()));
        }
        Config config = new Config();
        options.watchdogMillis().ifPresent(config::setLockWatchdogTimeout);
        options.replicasConfirm().ifPresent(config::setCheckLockSyncedSlaves);
        options.fairWaitMillis().ifPresent(millis -> NewerApi.setFairLockWait(config, millis));

        BaseConfig<?> servers = servers(config, options);
        if (options.prefix() != null) {
            NewerApi.setPrefix(config, servers, options.prefix());
        }
        return Redisson.create(config);
    }

    private static Config fromFile(String yaml) {
        try {
            return Config.fromYAML(new File(yaml));
        } catch (IOException unreadable) {
            throw new InvalidRequest("--yaml: " + unreadable.getMessage());
        }
    }

    /** One idle connection is enough to start with: the pools grow when needed. Reads go to masters, where the locks are. */
    private static BaseConfig<?> servers(Config config, Options options) {
        if (!options.cluster().isEmpty()) {
            return config.useClusterServers()
                    .addNodeAddress(options.cluster().toArray(String[]::new))
                    .setReadMode(ReadMode.MASTER)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1);
        }
        if (!options.sentinels().isEmpty()) {
            return config.useSentinelServers()
                    .addSentinelAddress(options.sentinels().toArray(String[]::new))
                    .setMasterName(options.master())
                    .setCheckSentinelsList(false) // a test may well run a single sentinel
                    .setReadMode(ReadMode.MASTER)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1);
        }
        return config.useSingleServer()
                .setAddress(options.redis())
                .setDatabase(database(options.redis()))
                .setConnectionMinimumIdleSize(1);
    }

    private static int database(String url) {
        String path = URI.create(url).getPath();
        return path == null || path.length() < 2 ? 0 : Integer.parseInt(path.substring(1));
    }
}
