// Threads that take numbered tasks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Crew {
    using Task = std::function<void(int64_t)>;
    std::vector<std::thread> threads_;
    std::mutex alone_, mutex_;
    std::condition_variable called_, finished_;
    const Task* task_ = nullptr;
    int64_t n_tasks_ = 0;
    std::atomic<int64_t> next_{0}, calls_{0};
    int busy_ = 0;
    bool stop_ = false;

    void work(const Task& task) {
        for (int64_t k; (k = next_.fetch_add(1, std::memory_order_relaxed)) < n_tasks_;) task(k);
    }

    void serve() {
        std::unique_lock lock(mutex_);
        for (int64_t seen = 0;;) {
            // Calls come in quick succession: to be asleep would cost more than to look for the next a little.
            lock.unlock();
            const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
            while (calls_ == seen && std::chrono::steady_clock::now() < until) {
            }
            lock.lock();
            called_.wait(lock, [&] { return stop_ || calls_ != seen; });
            if (stop_) return;
            seen = calls_;
            if (!task_) continue;  // came too late: nothing is left to do
            const Task& task = *task_;
            ++busy_;
            lock.unlock();
            work(task);
            lock.lock();
            if (--busy_ == 0) finished_.notify_one();
        }
    }

  public:
    // The caller of `run` is one of the threads.
    explicit Crew(int n_threads) {
        for (int i = 1; i < n_threads; ++i) threads_.emplace_back([this] { serve(); });
    }

    ~Crew() {
        {
            std::lock_guard lock(mutex_);
            stop_ = true;
        }
        called_.notify_all();
        for (std::thread& t : threads_) t.join();
    }

    // task(0) .. task(n - 1), in any order; none may throw. Returns when all are done.
    void run(int64_t n, const Task& task) {
        if (threads_.empty() || n == 1) {
            for (int64_t k = 0; k < n; ++k) task(k);
            return;
        }
        std::lock_guard one_call_at_a_time(alone_);
        {
            std::lock_guard lock(mutex_);
            task_ = &task;
            n_tasks_ = n;
            next_ = 0;
            ++calls_;
        }
        called_.notify_all();
        work(task);
        std::unique_lock lock(mutex_);
        task_ = nullptr;
        finished_.wait(lock, [&] { return busy_ == 0; });
    }
};
