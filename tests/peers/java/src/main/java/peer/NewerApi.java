package peer;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Optional;
import java.util.stream.Stream;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/** What some Redisson versions lack or keep elsewhere, found by name so that the peer compiles with all of them. */
final class NewerApi {
    private NewerApi() {
    }

    static RLock nonReentrantLock(RedissonClient client, String name) {
        return (RLock) call(client, "getNonReentrantLock", name);
    }

    static RLock nonReentrantFairLock(RedissonClient client, String name) {
        return (RLock) call(client, "getNonReentrantFairLock", name);
    }

    static void setFairLockWait(Config config, long millis) {
        call(config, "setFairLockWaitTimeout", millis);
    }

    /** Redisson 4 has the name mapper in the common configuration, older ones in that of the servers, each with its own interface. */
    static void setPrefix(Config config, BaseConfig<?> servers, String prefix) {
        Object owner = method(config, "setNameMapper").isPresent() ? config : servers;
        Class<?> mapperType = method(owner, "setNameMapper")
                .orElseThrow(() -> missing("setNameMapper"))
                .getParameterTypes()[0];
        call(owner, "setNameMapper", prefixing(mapperType, prefix));
    }

    private static Object prefixing(Class<?> mapperType, String prefix) {
        return Proxy.newProxyInstance(mapperType.getClassLoader(), new Class<?>[] {mapperType}, (self, method, args) ->
                switch (method.getName()) {
                    case "map" -> prefix + args[0];
                    case "unmap" -> ((String) args[0]).substring(prefix.length());
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    private static Object call(Object target, String name, Object argument) {
        Method method = method(target, name, argument).orElseThrow(() -> missing(name));
        try {
            return method.invoke(target, argument);
        } catch (InvocationTargetException failure) {
            throw new IllegalStateException(failure.getCause());
        } catch (IllegalAccessException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static Optional<Method> method(Object target, String name) {
        return methods(target, name).findFirst();
    }

    private static Optional<Method> method(Object target, String name, Object argument) {
        return methods(target, name).filter(method -> accepts(method.getParameterTypes()[0], argument)).findFirst();
    }

    private static Stream<Method> methods(Object target, String name) {
        return Stream.of(target.getClass().getMethods())
                .filter(method -> method.getName().equals(name) && method.getParameterCount() == 1);
    }

    private static boolean accepts(Class<?> parameter, Object argument) {
        return parameter.isInstance(argument) || parameter == long.class && argument instanceof Long;
    }

    private static InvalidRequest missing(String name) {
        return new InvalidRequest("this version of Redisson has no " + name);
    }
}
