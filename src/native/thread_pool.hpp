// A pool of threads that take numbered tasks.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace fanbayes {

class ThreadPool {
    using Task = std::function<void(int64_t)>;

    // What the threads share.
    struct Work {
        std::vector<std::thread> threads;
        std::mutex alone, mutex;
        std::condition_variable called, finished;
        const Task* task = nullptr;
        int64_t n_tasks = 0;
        std::atomic<int64_t> next{0}, calls{0};
        int busy = 0;
        bool stop = false;

        void take(const Task& one) {
            for (int64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) one(k);
        }

        void serve() {
            std::unique_lock lock(mutex);
            for (int64_t seen = 0;;) {
                // Calls come in quick succession: to spin a little costs less than to sleep and be woken.
                lock.unlock();
                const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
                while (calls == seen && std::chrono::steady_clock::now() < until) {
                }
                lock.lock();
                called.wait(lock, [&] { return stop || calls != seen; });
                if (stop) return;
                seen = calls;
                if (!task) continue;  // came too late: nothing is left to do
                const Task& one = *task;
                ++busy;
                lock.unlock();
                take(one);
                lock.lock();
                if (--busy == 0) finished.notify_one();
            }
        }
    };

    std::unique_ptr<Work> work_ = std::make_unique<Work>();
    const pid_t process_ = getpid();

    // In a process that was forked the threads are gone, and what they shared may be locked for ever.
    bool is_here() const { return getpid() == process_; }

  public:
    // The caller of `run` is one of the threads. Where there cannot be as many, those that there are do the work.
    explicit ThreadPool(int n_threads) {
        if (n_threads < 2) return;
        work_->threads.reserve(size_t(n_threads) - 1);
        try {
            for (int i = 1; i < n_threads; ++i) work_->threads.emplace_back([work = work_.get()] { work->serve(); });
        } catch (const std::exception&) {  // too many threads, or no memory for a stack
        }
    }

    ~ThreadPool() {
        if (!is_here()) {
            (void)work_.release();  // nothing of it can be joined or destroyed
            return;
        }
        {
            std::lock_guard lock(work_->mutex);
            work_->stop = true;
        }
        work_->called.notify_all();
        for (std::thread& t : work_->threads) t.join();
    }

    int n_threads() const { return 1 + int(work_->threads.size()); }

    // task(0) .. task(n - 1), in any order; none may throw. Returns when all are done.
    void run(int64_t n, const Task& task) {
        Work& work = *work_;
        if (work.threads.empty() || n == 1 || !is_here()) {
            for (int64_t k = 0; k < n; ++k) task(k);
            return;
        }
        std::lock_guard one_call_at_a_time(work.alone);
        {
            std::lock_guard lock(work.mutex);
            work.task = &task;
            work.n_tasks = n;
            work.next = 0;
            ++work.calls;
        }
        work.called.notify_all();
        work.take(task);
        std::unique_lock lock(work.mutex);
        work.task = nullptr;
        work.finished.wait(lock, [&] { return work.busy == 0; });
    }
};

}  // namespace fanbayes
